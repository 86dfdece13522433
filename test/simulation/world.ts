/** The world: its clock, its randomness, and the one order in which the turns of all processes run. */
import { createHash } from 'node:crypto';
import { setImmediate as nextLoop } from 'node:timers/promises';
import type { Runtime } from 'stablehooks';
import type { PromiseName } from './promise-list.js';
import { createRandom, type Random } from './random.js';
import type { Host } from './scenario.js';

/** When every world starts. */
export const START_MS = Date.UTC(2026, 0, 1);

export interface TraceLine {
  readonly at: number;
  readonly process: string;
  readonly text: string;
  readonly id: string | undefined;
}

/** A promise of the package that did not hold. */
export interface Violation {
  readonly promise: PromiseName;
  readonly details: string;
  readonly id: string | undefined;
}

/** A process from its start to its end. After a crash its host starts another one. */
export class Process {
  readonly name: string;
  readonly skewMs: number;
  readonly lacks: readonly string[];
  readonly startedAt: number;
  ended = false;
  /** No turn of it runs before, as in a machine that is suspended. */
  pausedUntil = 0;
  /** Whether its connections have stopped answering. */
  isCutOff = false;
  readonly #onEnd = new Set<() => void>();
  #uuids = 0;

  constructor(name: string, options: Partial<Host> & { readonly startedAt: number }) {
    const { skewMs = 0, lacks = [], startedAt } = options;
    this.name = name;
    this.skewMs = skewMs;
    this.lacks = lacks;
    this.startedAt = startedAt;
  }

  /** Stops its work: its pending calls are never answered. */
  end(): void {
    this.ended = true;
    for (const callback of this.#onEnd) callback();
    this.#onEnd.clear();
  }

  /** Calls back at its end, until the returned function is called. */
  onEnd(callback: () => void): () => void {
    this.#onEnd.add(callback);
    return () => this.#onEnd.delete(callback);
  }

  uuid(): string {
    this.#uuids += 1;
    return `${this.name}-${this.#uuids}`;
  }
}

interface Turn {
  at: number;
  /** When it was due before its process was paused: pauses keep the order. */
  readonly dueAt: number;
  readonly tie: number;
  readonly process: Process;
  readonly text: string;
  run: (() => void) | undefined;
}

/** How long a step can take, in ms. */
export interface Latency {
  readonly usualMs: number;
  readonly slowMs: number;
  readonly slow: number;
}

export interface WorldOptions {
  readonly seed: number;
  /** Another number gives another order of the same seed. */
  readonly order: number;
  readonly latency: Latency;
  /** Gets a line for whatever happens; without it no line is kept. */
  readonly trace?: TraceLine[] | undefined;
  /** Called before each turn that belongs to a process; ends or pauses it. */
  readonly disturb: (process: Process, text: string) => void;
}

export class World {
  now = START_MS;
  /** Whether all faults are over. */
  calm = false;
  turns = 0;
  violation: Violation | undefined;
  readonly random: Random;
  /** How often each fault occurred, and what the invariants were tested with. */
  readonly occurrences = new Map<string, number>();
  /** The service, the networks, and what is outside of all processes. It never ends. */
  readonly outside = new Process('service', { startedAt: START_MS });
  readonly #options: WorldOptions;
  readonly #hash = createHash('sha256');
  readonly #turns: Turn[] = [];
  #effects = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    this.random = createRandom(options.seed, options.order, 1);
  }

  /** The time, timers and randomness of a process. */
  runtime(process: Process): Runtime {
    return {
      now: () => this.now + process.skewMs,
      elapsed: () => this.now - process.startedAt,
      random: () => this.random.number(),
      uuid: () => process.uuid(),
      setTimeout: (callback, ms) => this.after(process, Math.max(1, ms), 'a timer is due', callback),
      clearTimeout: (timer) => {
        if (timer !== undefined) (timer as Turn).run = undefined;
      },
    };
  }

  /** Runs something of a process after so much time. */
  after(process: Process, ms: number, text: string, run: () => void): Turn {
    const at = this.now + Math.ceil(ms);
    const turn: Turn = { at, dueAt: at, tie: this.random.number(), process, text, run };
    if (!process.ended) this.#push(turn);
    return turn;
  }

  /** A step of a process takes its time. It never resolves if the process ends before. */
  hop(process: Process, text: string, id?: string): Promise<void> {
    return new Promise((resolve) => {
      this.after(process, this.#latency(), text, () => {
        this.note(process, text, id);
        resolve();
      });
    });
  }

  /** A process does nothing for so long. */
  sleep(process: Process, ms: number, text = 'waits'): Promise<void> {
    return new Promise((resolve) => {
      this.after(process, ms, text, resolve);
    });
  }

  /** Does something to a store. No other turn begins before it has taken effect. */
  async effect<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    this.#effects += 1;
    try {
      return await work();
    } finally {
      this.#effects -= 1;
    }
  }

  /** Whether a fault of this probability occurs now; it is counted. */
  strikes(fault: string, probability: number | undefined): boolean {
    if (this.calm || !this.random.chance(probability ?? 0)) return false;
    this.count(fault);
    return true;
  }

  count(what: string): void {
    this.occurrences.set(what, (this.occurrences.get(what) ?? 0) + 1);
  }

  note(process: Process, text: string, id?: string): void {
    this.#hash.update(`${this.now} ${process.name} ${text} ${id}\n`);
    this.#options.trace?.push({ at: this.now, process: process.name, text, id });
  }

  /** A promise does not hold: the first one is kept, and the world stops. */
  violate(promise: PromiseName, details: string, id?: string): void {
    this.note(this.outside, `VIOLATED: ${promise}. ${details}`, id);
    this.violation ??= { promise, details, id };
  }

  /** Runs turns until it is over or a promise is violated. */
  async run(isOver: () => boolean): Promise<void> {
    await this.#settle();
    while (this.violation === undefined && !isOver()) {
      const turn = this.#turns.pop();
      if (turn === undefined) return;
      const { process } = turn;
      if (process.ended || turn.run === undefined) continue;
      if (process.pausedUntil > turn.at) {
        turn.at = process.pausedUntil;
        this.#push(turn);
        continue;
      }
      this.now = Math.max(this.now, turn.at);
      if (process !== this.outside) this.#options.disturb(process, turn.text);
      if (process.ended) continue;
      if (process.pausedUntil > this.now) {
        this.#push(turn);
        continue;
      }
      const { run } = turn;
      // A process that is closed takes its timers back.
      if (run === undefined) continue;
      this.turns += 1;
      this.#hash.update(`${this.now} ${process.name} ${turn.text}\n`);
      turn.run = undefined;
      try {
        run();
      } catch (error) {
        this.violate('a timer never throws', `${turn.text}: ${toText(error)}`);
      }
      await this.#settle();
    }
  }

  /** The hash of all that happened. */
  hash(): string {
    return this.#hash.copy().digest('hex').slice(0, 16);
  }

  /** Everything that follows from a turn runs before the next one; a store can need several loops of Node. */
  async #settle(): Promise<void> {
    do await nextLoop();
    while (this.#effects > 0);
  }

  #latency(): number {
    if (this.calm) return this.random.integer(0, 2);
    const { usualMs, slowMs, slow } = this.#options.latency;
    return this.strikes('slow step', slow)
      ? this.random.integer(1_000, slowMs)
      : this.random.integer(0, usualMs);
  }

  /** Keeps the turns in order, the next one last. */
  #push(turn: Turn): void {
    let [low, high] = [0, this.#turns.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#turns[middle];
      if (other !== undefined && isBefore(turn, other)) low = middle + 1;
      else high = middle;
    }
    this.#turns.splice(low, 0, turn);
  }
}

/** The thrown value as text, for the details of a violation. */
export function toText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function isBefore(a: Turn, b: Turn): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.dueAt === b.dueAt ? a.tie < b.tie : a.dueAt < b.dueAt;
}
