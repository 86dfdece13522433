/** What a handler gets as `ctx.tx`: the driver's own object, which does not end the inbox's transaction. */
import { HandlerError } from '../core/errors.js';
import { isCommitRefusal } from './postgres-errors.js';

/** What is known of the statements that a handler sends in its transaction. */
export interface TransactionWatch {
  /**
   * Called when the handler has ended. After this call the transaction refuses every statement but those of the inbox:
   * one that fails after the event is marked done would undo that, and COMMIT would not say so.
   */
  close(): void;
  /** Whether the handler ended the transaction, and nothing that it sent ran afterwards. */
  hasEndedCleanly(): boolean;
  /** Whether the handler sent a text that can end the transaction. */
  mayHaveEnded(): boolean;
}

/** A transaction of the inbox as a handler gets it. */
export interface GuardedTransaction<Tx> extends TransactionWatch {
  readonly tx: Tx;
  /** Whether a statement of the handler still runs. */
  isRunning(): boolean;
}

/** The transaction of a data layer that guards it itself, as far as it does. */
export function toGuarded<Tx>(tx: Tx, watch: Partial<TransactionWatch>): GuardedTransaction<Tx> {
  return {
    tx,
    close: () => watch.close?.(),
    isRunning: () => false,
    hasEndedCleanly: () => watch.hasEndedCleanly?.() ?? false,
    mayHaveEnded: () => watch.mayHaveEnded?.() ?? false,
  };
}

/** A query in the forms that `pg` takes. */
type PgQuery = string | (object & { readonly [Name in 'text' | 'values' | 'submit' | 'callback']?: unknown });
type Callback = (error: unknown, result?: unknown) => void;

/** Guards a client of `pg` or `@neondatabase/serverless`. Every form of `query` keeps its native result. */
export function guardClient<Client extends object>(client: Client): GuardedTransaction<Client> {
  const guard = createGuard();
  const native = client as { query(...args: readonly unknown[]): unknown };
  const query = (query: PgQuery, ...rest: readonly unknown[]): unknown => {
    const config = typeof query === 'string' ? { text: query } : query;
    const text = typeof config.text === 'string' ? config.text : '';
    if (typeof config.submit === 'function') {
      // pg-cursor and pg-query-stream send themselves, and there is no promise of a result.
      guard.check(text);
      return native.query(query, ...rest);
    }
    const values = rest.find((argument) => typeof argument !== 'function') ?? config.values;
    const callback = [...rest, config.callback].find((one): one is Callback => typeof one === 'function');
    const result = guard.run(text, (sent) => {
      const own = { text: sent, values, callback: undefined, queryMode: 'extended' };
      // The extended protocol takes one statement. Derived, because a config can be an object with getters.
      const changed = sent === text ? derive(config, own) : { ...own, values: [] };
      return native.query(changed) as Promise<unknown>;
    });
    if (callback === undefined) return result;
    result.then((value) => callback(null, value), callback);
    return undefined;
  };
  return { ...guard, tx: withMethods(client, { query, ...forbid('release', 'end', 'connect') }) };
}

/** Guards the transaction of a PGlite, or of anything else whose `query` takes a text first. */
export function guardQueries<Tx>(tx: Tx): GuardedTransaction<Tx> {
  const guard = createGuard();
  const native = tx as Readonly<
    Record<'query' | 'exec' | 'sql', (...args: readonly unknown[]) => Promise<unknown>>
  >;
  const methods = {
    query: (text: string, ...rest: readonly unknown[]) =>
      guard.run(text, (sent) => native.query(sent, ...rest)),
    exec: (text: string, ...rest: readonly unknown[]) =>
      guard.run(text, (sent) => native.exec(sent, ...rest)),
    sql: (strings: readonly string[], ...values: readonly unknown[]) => {
      const text = strings.join('$');
      return guard.run(text, (sent) => (sent === text ? native.sql(strings, ...values) : native.query(sent)));
    },
  };
  return { ...guard, tx: withMethods(tx as Tx & object, { ...methods, ...forbid('rollback') }) };
}

/** Sends one statement with the driver. */
type Send = (text: string) => Promise<unknown>;

interface Guard extends Omit<GuardedTransaction<unknown>, 'tx'> {
  /** Sends a statement of the handler, or the savepoint that it becomes; rejects when it must not be sent. */
  run(text: string, send: Send): Promise<unknown>;
  /** Throws when a statement that cannot be changed must not be sent. */
  check(text: string): void;
}

function createGuard(): Guard {
  let closed = false;
  let running = 0;
  let sent = 0;
  /** The number of the statement that ended the transaction, if the handler found a way. */
  let endedBy: number | undefined;
  /** How many transactions the handler has open inside the inbox's; each is a savepoint. */
  let depth = 0;

  function assertOpen(): void {
    if (endedBy === undefined && !closed) return;
    throw refusal(
      'The transaction has ended and the statement was not sent. Await every statement, and stop when `signal` aborts.',
    );
  }

  async function track(text: string, send: Send): Promise<unknown> {
    // A text of the handler can become two statements.
    assertOpen();
    sent += 1;
    running += 1;
    const number = sent;
    try {
      const result = await send(text);
      // The tag of ROLLBACK TO SAVEPOINT is ROLLBACK, too.
      if (readControl(text) === undefined && hasEnded(result)) {
        endedBy = number;
        // Of several statements in one text, those after the end have run.
        if (Array.isArray(result)) sent += 1;
      }
      return result;
    } catch (error) {
      if (isCommitRefusal(error)) endedBy = number;
      throw error;
    } finally {
      running -= 1;
    }
  }

  async function control(kind: Control, text: string, send: Send): Promise<unknown> {
    if (kind === 'begin') {
      depth += 1;
      try {
        return await track(`SAVEPOINT stablehooks_${depth}`, send);
      } catch (error) {
        depth -= 1;
        throw error;
      }
    }
    if (kind === 'rollback to') return track(text, send);
    if (kind === 'other' || depth === 0) throw refusal(BELONGS_TO_INBOX);
    const name = `stablehooks_${depth}`;
    const rolledBack = kind === 'rollback' && (await track(`ROLLBACK TO SAVEPOINT ${name}`, send));
    const released = await track(`RELEASE SAVEPOINT ${name}`, send);
    depth -= 1;
    return rolledBack || released;
  }

  return {
    close() {
      closed = true;
    },
    // What else can end the transaction is refused, or answered first.
    mayHaveEnded: () => endedBy !== undefined,
    isRunning: () => running > 0,
    hasEndedCleanly: () => endedBy === sent,
    check(text) {
      assertOpen();
      if (readControl(text) !== undefined) throw refusal(BELONGS_TO_INBOX);
      sent += 1;
    },
    async run(text, send) {
      assertOpen();
      const kind = readControl(text);
      return kind === undefined ? track(text, send) : control(kind, text, send);
    },
  };
}

/** Whether a result has the tag COMMIT; that of a COMMIT has ROLLBACK if a statement before had failed. */
export function isCommit(result: unknown): boolean {
  return readTag(result) === 'COMMIT';
}

function readTag(result: unknown): unknown {
  return (result as { readonly command?: unknown } | null | undefined)?.command;
}

/** Whether a result, or one of several, has the tag of a statement that ends a transaction. */
function hasEnded(result: unknown): boolean {
  return [result].flat().some((one) => {
    const tag = readTag(one);
    return tag === 'COMMIT' || tag === 'ROLLBACK' || tag === 'PREPARE TRANSACTION';
  });
}

const BELONGS_TO_INBOX =
  'The transaction belongs to the inbox, and the statement was not sent. Return from the handler to commit, throw to roll back, and use a nested transaction or a SAVEPOINT for a part.';

function refusal(message: string): HandlerError {
  return new HandlerError('ERR_HANDLER_FAILED', message);
}

/** What a statement does to the transaction. */
type Control = 'begin' | 'commit' | 'rollback' | 'rollback to' | 'other';

const CONTROLS: readonly (readonly [RegExp, Control])[] = [
  // Several statements in one text.
  [/;/, 'other'],
  [/^(BEGIN|START TRANSACTION)\b/, 'begin'],
  [/^(COMMIT|END)( WORK| TRANSACTION)?( AND NO CHAIN)?$/, 'commit'],
  [/^(ROLLBACK|ABORT)( WORK| TRANSACTION)?( AND NO CHAIN)?$/, 'rollback'],
  [/^ROLLBACK( WORK| TRANSACTION)? TO\b/, 'rollback to'],
];

/** Reads whether a statement begins or ends a transaction; `undefined` when it does neither. */
function readControl(text: string): Control | undefined {
  // Most statements; the rest may begin with a comment.
  if (!/^[\s;]*(--|\/\*|BEGIN|START|COMMIT|END|ROLLBACK|ABORT|PREPARE)/i.test(text)) return undefined;
  const statement = withoutComments(text)
    .replace(/^[\s;]+|[\s;]+$/g, '')
    .replace(/\s+/g, ' ')
    .toUpperCase();
  if (!/^(BEGIN|START TRANSACTION|COMMIT|END|ROLLBACK|ABORT|PREPARE TRANSACTION)\b/.test(statement))
    return undefined;
  return CONTROLS.find(([pattern]) => pattern.test(statement))?.[1] ?? 'other';
}

/** How a text can end the transaction in which it is sent: `alone`, or together with other statements. */
export function readEnd(text: string): 'alone' | 'with others' | undefined {
  const control = readControl(text);
  if (control === 'commit' || control === 'rollback') return 'alone';
  // A block has an END of its own, and the server does not let it end the transaction that it is in.
  const rest = text.replace(/^\s*DO\b[^$;]*\$(\w*)\$.*?\$\1\$/is, '');
  // A literal can look like a second statement.
  return control === 'other' || /;\s*(COMMIT|END|ROLLBACK|ABORT|PREPARE\s+TRANSACTION)\b/i.test(rest)
    ? 'with others'
    : undefined;
}

/** Replaces each comment by a space. Comments between slashes nest. Reads no strings: no transaction control has one. */
function withoutComments(text: string): string {
  let plain = '';
  let depth = 0;
  let from = 0;
  const marks = /\/\*|\*\/|--[^\n\r]*/g;
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    const [found] = mark;
    if (depth === 0 && found !== '*/') {
      plain += `${text.slice(from, mark.index)} `;
      if (found === '/*') depth = 1;
      from = marks.lastIndex;
    } else if (depth > 0) {
      if (found === '/*') depth += 1;
      else if (found === '*/') depth -= 1;
      // Dashes inside a comment hide nothing of it.
      else marks.lastIndex = mark.index + 2;
      from = marks.lastIndex;
    }
  }
  return depth === 0 ? plain + text.slice(from) : plain;
}

/** The same object with other methods. Its own methods run on it: a driver's class can have private members. */
function withMethods<Target extends object>(
  target: Target,
  methods: Readonly<Record<string, (...args: never[]) => unknown>>,
): Target {
  const proxy: Target = new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function' || name === 'constructor') return value;
      if (Object.hasOwn(methods, name)) return methods[String(name)];
      return (...args: readonly unknown[]) => {
        const result: unknown = Reflect.apply(value, target, args);
        return result === target ? proxy : result;
      };
    },
  });
  return proxy;
}

/** Methods that would end the transaction or its connection. */
function forbid(...names: readonly string[]): Readonly<Record<string, () => never>> {
  const refuse = (name: string) => () => {
    throw refusal(
      `The connection of ctx.tx belongs to the inbox: do not call ${name}(). Return from the handler to commit, or throw to roll back.`,
    );
  };
  return Object.fromEntries(names.map((name) => [name, refuse(name)]));
}

/** An object with these members of its own and the others of `base`, whether they are its own or its class's. */
function derive(base: object, members: object): object {
  return Object.create(base, Object.getOwnPropertyDescriptors({ ...base, ...members })) as object;
}
