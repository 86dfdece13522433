/** The loop of `receiver.run`. */
import { describeThrown } from '../core/errors.js';
import type { Inbox, Logger } from '../core/ports.js';
import type { Runtime } from '../core/runtime.js';
import { log } from './outcome.js';

/** Options of `receiver.run`. */
export interface RunOptions {
  /** The time from the end of one look for due events to the next, in ms, plus or minus a fifth. @default 5_000 */
  readonly intervalMs?: number | undefined;
  /** Ends it: events that run are waited for. @default none: it ends with `close()` */
  readonly signal?: AbortSignal | undefined;
}

/** Runs what is due at intervals, and at once when it is woken. */
export interface Runner {
  /** Looks for due events at once; if it looks already, once more after that. */
  wake(): void;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
}

interface RunnerSettings {
  readonly intervalMs: number;
  /** Ends the runner. */
  readonly signal: AbortSignal;
  /** Runs what is due; resolves to whether more can be due. */
  readonly runDue: (signal: AbortSignal) => Promise<boolean>;
  /** The inbox, which is made at its first use. */
  readonly inbox: () => Inbox<unknown>;
  readonly logger: Logger;
  readonly runtime: Runtime;
}

/** Starts a runner. When it begins to fail it logs one line, and one when it has recovered. */
export function startRunner({ intervalMs, signal, runDue, inbox, logger, runtime }: RunnerSettings): Runner {
  let woken = false;
  let endPause = () => {};
  let isListening = false;
  let listening: Promise<void> | undefined;
  let stopListening: (() => Promise<void>) | undefined;
  const failing = { look: false, listen: false };

  function wake(): void {
    woken = true;
    endPause();
  }

  async function pause(): Promise<void> {
    if (woken || signal.aborted) return;
    // Processes that start together must not keep looking at the same time.
    const waitMs = intervalMs * (0.8 + runtime.random() * 0.4);
    await new Promise<void>((resolve) => {
      const timer = runtime.setTimeout(resolve, waitMs);
      endPause = () => {
        runtime.clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Runs a step, and logs the first failure and the first success after it. */
  async function logChanges(
    step: keyof typeof failing,
    what: string,
    run: () => Promise<void>,
  ): Promise<void> {
    try {
      await run();
      if (failing[step]) log(logger, 'warn', `the runner can ${what} again.`);
      failing[step] = false;
    } catch (error) {
      const line = `the runner cannot ${what}, and tries again about every ${intervalMs} ms. ${describeThrown(error)}`;
      if (!failing[step]) log(logger, 'error', line);
      failing[step] = true;
    }
  }

  /** Beside the looks: an inbox can take seconds to find out that it cannot listen. */
  async function listen(): Promise<void> {
    try {
      stopListening = await inbox().listen?.(wake, (error) => {
        stopListening = undefined;
        isListening = false;
        failing.listen = true;
        log(logger, 'warn', `the runner lost its connection that listens. ${describeThrown(error)}`);
      });
      // No message came of what was due before.
      if (stopListening !== undefined) wake();
    } catch (error) {
      isListening = false;
      throw error;
    }
  }

  async function look(): Promise<void> {
    if (await runDue(signal)) woken = true;
  }

  async function loop(): Promise<void> {
    signal.addEventListener('abort', wake);
    while (!signal.aborted) {
      woken = false;
      if (!isListening) {
        isListening = true;
        listening = logChanges('listen', 'listen for messages of the inbox', listen);
      }
      await logChanges('look', 'look for due events', look);
      await pause();
    }
    signal.removeEventListener('abort', wake);
    // A connection that is still being made must not keep `close` waiting: it ends once it is there.
    if (stopListening === undefined) listening?.then(endListening);
    else await endListening();
  }

  async function endListening(): Promise<void> {
    await stopListening?.().catch(() => undefined);
  }

  return { wake, ended: loop() };
}
