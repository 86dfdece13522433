import { ConfigError, describeThrown } from '../core/errors.js';
import { createdAtMs } from '../core/events.js';
import { log } from '../core/log.js';
import { abortSignal, integer, readOptions } from '../core/options.js';
import { type Logger, POLL_NOTE } from '../core/ports.js';
import { nextTurn, setBackgroundTimeout, timeLimit } from '../core/runtime.js';
import type { Slots } from '../flow/slots.js';
import type { InFlight } from './in-flight.js';
import { runInside } from './layers.js';
import type { ReceiverSettings, StartOptions } from './options.js';
import type { Outcome } from './outcome.js';
import type { Store } from './store.js';
import type { Work } from './work.js';

const WIDTH = 16;

const INTERVAL_MS = 1_000;

/** How long synchronous inboxes and handlers can block the event loop. */
const PAUSE_AFTER_MS = 50;

interface RedriverParts {
  readonly settings: ReceiverSettings;
  readonly store: Store;
  readonly inFlight: InFlight;
  readonly logger: Logger;
  readonly slots: Slots | undefined;
  readonly runOne: (work: Work, onRest: (rest: Promise<unknown>) => void) => Promise<Outcome>;
}

interface OnceOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onOutcome?: ((outcome: Outcome) => void) | undefined;
  readonly onRest?: ((rest: Promise<unknown>) => void) | undefined;
}

type ReadEvent = Pick<Work, 'event' | 'json'>;

export class Redriver {
  readonly #parts: RedriverParts;
  #intervalMs = INTERVAL_MS;
  /** Created when the loop begins, because Workers forbid an AbortController while a module loads. */
  #stopping: AbortController | undefined;
  #loop: Promise<void> | undefined;
  readonly #overdue = new Set<Promise<unknown>>();
  #wasStarted = false;
  #isStarted = false;
  #isWoken = false;
  #isFailing = false;
  #hasRedriven = false;
  #hasWarned = false;
  #endPause: (() => void) | undefined;

  constructor(parts: RedriverParts) {
    this.#parts = parts;
  }

  start(options: StartOptions = {}): void {
    const { intervalMs, signal } = readOptions('receiver.start', options, {
      intervalMs: integer({ default: INTERVAL_MS }),
      signal: abortSignal(),
    });
    if (this.#parts.inFlight.isClosed) {
      throw new ConfigError(
        'receiver.start: the receiver is closed, so nothing would run. Create a new receiver, or call start() before close().',
      );
    }
    if (this.#wasStarted) throw new ConfigError('receiver.start: the receiver was already started.');
    if (signal?.aborted) return;
    this.#wasStarted = true;
    this.#isStarted = true;
    this.#intervalMs = intervalMs;
    signal?.addEventListener('abort', () => this.#stop(), { once: true });
    this.wake();
  }

  /** Without `start()`, this has an effect only if `answer` is `recorded`. */
  wake(): void {
    const { inFlight, settings } = this.#parts;
    const { use, answer } = settings;
    this.#isWoken = true;
    this.#endPause?.();
    if (inFlight.isClosed || !(this.#isStarted || answer === 'recorded')) return;
    this.#loop ??= runInside(use, 'detached', () => this.#run());
  }

  /** Without `start()`, waits for the work that a wake-up began, but at most for `leaseMs`. */
  async idle(): Promise<void> {
    const { leaseMs, runtime } = this.#parts.settings;
    if (!this.#isBusy || this.#isStarted) return;
    await timeLimit(this.#untilIdle(), leaseMs, () => undefined, runtime);
  }

  get #isBusy(): boolean {
    return this.#loop !== undefined || this.#overdue.size > 0;
  }

  async #untilIdle(): Promise<void> {
    while (this.#isBusy) await Promise.all([this.#loop, ...this.#overdue]);
  }

  async close(): Promise<void> {
    this.#stop();
    await this.#loop;
  }

  #stop(): void {
    this.#isStarted = false;
    this.#stopping?.abort();
    this.#endPause?.();
  }

  async #run(): Promise<void> {
    this.#stopping = new AbortController();
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#isWoken = false;
      const isMore = await this.#tryOnce(signal);
      if (isMore || this.#isWoken) continue;
      if (!this.#isStarted && !this.#isFailing) break;
      await this.#pause(signal);
    }
    this.#loop = undefined;
    // An event may have become due since the last query.
    if (signal.aborted && this.#isWoken) this.wake();
  }

  async #tryOnce(signal: AbortSignal): Promise<boolean> {
    const { logger } = this.#parts;
    const onRest = (rest: Promise<unknown>) => {
      this.#overdue.add(rest);
      void rest.then(() => this.#overdue.delete(rest));
    };
    try {
      const isMore = await this.once({ signal, onRest });
      if (this.#isFailing) log(logger, 'warn', 'the receiver can read due events from the inbox again.');
      this.#isFailing = false;
      return isMore;
    } catch (error) {
      if (!this.#isFailing) {
        const line = `the receiver cannot read due events from the inbox. The receiver tries again about every ${this.#intervalMs} ms. ${describeThrown(error)}`;
        log(logger, 'error', line);
      }
      this.#isFailing = true;
      return false;
    }
  }

  async #pause(signal: AbortSignal): Promise<void> {
    const { runtime } = this.#parts.settings;
    if (signal.aborted) return;
    // The random part keeps processes that start together from polling at the same time.
    const waitMs = this.#intervalMs * (0.8 + runtime.random() * 0.4);
    await new Promise<void>((resolve) => {
      const timer = this.#isStarted
        ? runtime.setTimeout(resolve, waitMs)
        : setBackgroundTimeout(runtime, resolve, waitMs);
      this.#endPause = () => {
        runtime.clearTimeout(timer);
        resolve();
      };
    });
    this.#endPause = undefined;
  }

  /** Ends after `leaseMs`, because the taken events are then due again. Resolves to whether more events may be due. */
  once(options: OnceOptions): Promise<boolean> {
    this.#hasRedriven = true;
    // Other processes do not run the taken events until a lease has elapsed, so `close()` waits for them.
    return this.#parts.inFlight.track(this.#runDue(options));
  }

  async #runDue({ signal, onOutcome, onRest = () => undefined }: OnceOptions): Promise<boolean> {
    const { store, inFlight, runOne, slots, settings } = this.#parts;
    const { leaseMs, runtime } = settings;
    const width = Math.min(WIDTH, slots?.count ?? WIDTH);
    let pausedAt = runtime.elapsed();
    const until = pausedAt + leaseMs;
    const running = new Set<Promise<void>>();
    const start = ({ event, json }: ReadEvent) => {
      const end = runOne({ event, json, origin: 'redrive', signal }, onRest).then((outcome) => {
        running.delete(end);
        // An event with a busy key becomes due again when the running event with the same key ends.
        if (outcome.error?.code !== 'ERR_KEY_BUSY') onOutcome?.(outcome);
      });
      running.add(end);
    };
    try {
      while (!signal?.aborted && !inFlight.isClosed && runtime.elapsed() < until) {
        // Querying the inbox after each event would take up most of the time.
        const room = running.size > width / 2 ? 0 : Math.min(width - running.size, slots?.free ?? width);
        const due = room === 0 ? [] : await store.takeDue(room);
        // Among events with the same key, the one that is claimed first runs first, so start with the oldest.
        const events = store.read(due).toSorted((a, b) => createdAtMs(a.event) - createdAtMs(b.event));
        for (const each of events) start(each);
        if (due.length > 0) {
          if (runtime.elapsed() - pausedAt > PAUSE_AFTER_MS) {
            await nextTurn(runtime);
            pausedAt = runtime.elapsed();
          }
          continue;
        }
        // Nothing was awaited after the free slots were counted, so no slot can have become free unnoticed.
        if (running.size > 0) await Promise.race(running);
        else if (room === 0) await slots?.freed(signal);
        else return false;
      }
      return true;
    } finally {
      await Promise.all(running);
    }
  }

  warnIfIdle({ event: { id }, origin }: Work): void {
    const { store, settings, logger } = this.#parts;
    // A worker needn't redrive events, because the receiver that enqueues them does.
    if (origin === 'queue') return;
    if (this.#hasWarned || this.#hasRedriven || !store.durable) return;
    this.#hasWarned = true;
    const check = async () => {
      const isPolled = (await settings.inbox.readNote(POLL_NOTE)) !== null;
      if (isPolled || this.#hasRedriven) return;
      log(
        logger,
        'warn',
        `${id} is stored to run later, but this process has not called receiver.start() or receiver.redrive(). Call start() in one of your processes; otherwise such events never run.`,
      );
    };
    check().catch(() => undefined);
  }
}
