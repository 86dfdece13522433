import { type EventType, isEventType } from 'stablehooks';
import type { Field, Shape } from './shape.js';
import { FIRST_LINE, type LearnedPayloads } from './source-text.js';

/** The text was not written by `stablehooks types`. */
export class SourceError extends Error {
  /** From 1. */
  readonly line: number;

  constructor(line: number, options?: ErrorOptions) {
    super(`Line ${line} does not have the form that \`stablehooks types\` writes.`, options);
    this.line = line;
  }
}

/**
 * Reads the shapes from a module that `toSource` wrote. Formatting and comments make no difference. No part of the module is
 * run.
 *
 * @throws {SourceError} for any other content, which would be lost when the file is written again.
 */
export function readSource(text: string): LearnedPayloads {
  if (!text.startsWith(FIRST_LINE)) throw new SourceError(1);
  const tokens = new Tokens(text);
  const learned = new Map<EventType, Shape>();
  tokens.expect(/import\s*\*\s*as\s+z\s+from\s*['"]zod['"]\s*;?/);
  tokens.expect(/export\s+const\s+payloads\s*=\s*\{/);
  tokens.list('}', () => {
    const type = tokens.key();
    if (!isEventType(type)) tokens.fail();
    else learned.set(type, readShape(tokens));
  });
  const end = /;|export\s+type\s+\w+\s*=\s*z\.output<\(?typeof payloads\)?\[['"][\w.]+['"]\]>/;
  while (tokens.take(end) !== undefined);
  tokens.expect(/$/);
  return learned;
}

/** Reads the text from start to end, without white space and comments. */
class Tokens {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    this.#skip();
  }

  /** Consumes the match of the pattern at the current position. */
  take(pattern: RegExp): string | undefined {
    const found = this.#match(pattern);
    if (found === undefined) return undefined;
    this.#at += found.length;
    this.#skip();
    return found;
  }

  #skip(): void {
    this.#at += this.#match(/(?:\s|\/\/.*|\/\*[\s\S]*?\*\/)*/)?.length ?? 0;
  }

  #match(pattern: RegExp): string | undefined {
    const here = new RegExp(pattern, 'y');
    here.lastIndex = this.#at;
    return here.exec(this.#text)?.[0];
  }

  expect(pattern: RegExp): string {
    return this.take(pattern) ?? this.fail();
  }

  /** Reads elements with commas between them, and after the last one if there is one, up to the end. */
  list(end: '}' | ']' | ')', readElement: () => void): void {
    const close = new RegExp(`\\${end}`);
    while (this.take(close) === undefined) {
      readElement();
      if (this.take(/,/) !== undefined) continue;
      this.expect(close);
      return;
    }
  }

  key(): string {
    const name = this.take(/[A-Za-z_$][\w$]*/) ?? this.string();
    this.expect(/:/);
    return name;
  }

  string(): string {
    const literal = this.expect(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/);
    // As JSON: with double quotes, in which a single quote has no escape.
    const inside = literal.slice(1, -1).replaceAll(/\\.|"/g, (one) => {
      if (one === '"') return '\\"';
      return one === "\\'" ? "'" : one;
    });
    try {
      return JSON.parse(`"${inside}"`);
    } catch (cause) {
      return this.fail(cause);
    }
  }

  fail(cause?: unknown): never {
    throw new SourceError(this.#text.slice(0, this.#at).split('\n').length, { cause });
  }
}

/** An expression of zod, and whether `z.optional` makes its field optional. */
function readField(tokens: Tokens): Field {
  const optional = tokens.take(/z\s*\.\s*optional\s*\(/) !== undefined;
  const shape = readShape(tokens);
  if (optional) closeCall(tokens);
  return { shape, optional };
}

function closeCall(tokens: Tokens): void {
  tokens.take(/,/);
  tokens.expect(/\)/);
}

function readShape(tokens: Tokens): Shape {
  const name = tokens.expect(/z\s*\.\s*\w+\s*\(/).replaceAll(/[\s.(]|^z/g, '');
  const shape = Object.hasOwn(READERS, name) ? READERS[name]?.(tokens) : undefined;
  if (shape === undefined) tokens.fail();
  closeCall(tokens);
  return shape;
}

/** Readers of the arguments of each function of zod that `toSource` writes. */
const READERS: Readonly<Record<string, (tokens: Tokens) => Shape>> = {
  unknown: () => ({}),
  null: () => ({ null: true }),
  boolean: () => ({ boolean: true }),
  int: () => ({ number: 'integer' }),
  number: () => ({ number: 'any' }),
  string: () => ({ string: 'any' }),
  nullable: (tokens) => ({ ...readShape(tokens), null: true }),
  array: (tokens) => ({ array: readShape(tokens) }),
  enum(tokens) {
    const values = new Set<string>();
    tokens.expect(/\[/);
    tokens.list(']', () => void values.add(tokens.string()));
    return { string: values };
  },
  union(tokens) {
    let shape: Shape = {};
    tokens.expect(/\[/);
    tokens.list(']', () => {
      const next = readShape(tokens);
      // `toSource` never writes two of one kind, and one would be lost.
      if (Object.keys(next).some((kind) => Object.hasOwn(shape, kind))) tokens.fail();
      shape = { ...shape, ...next };
    });
    return shape;
  },
  record(tokens) {
    tokens.expect(/z\.string\(\)\s*,/);
    return { map: readShape(tokens) };
  },
  looseObject(tokens) {
    const object = new Map<string, Field>();
    tokens.expect(/\{/);
    tokens.list('}', () => {
      const key = tokens.key();
      object.set(key, readField(tokens));
    });
    return { object };
  },
};
