/** The steps of the SQLite inbox: each atomic, and those asked for together committed together. */
import { setImmediate } from 'node:timers';
import { atomically, type SqliteLike } from './sqlite-connection.js';

/** Runs a step and resolves with its answer once that is on the disk. */
export type RunStep = <Value>(step: () => Value) => Promise<Value>;

interface WaitingStep {
  /** Does the work and hands back how to answer, which has to wait for the commit. */
  run(): () => void;
  reject(error: unknown): void;
}

/**
 * Makes the runner of one connection's steps. A commit waits for the disk, which takes far longer than a
 * step does: so all steps that one turn of the event loop asks for share a transaction, one after the other.
 * Where it fails, each of them rejects and nothing was changed.
 */
export function createSteps(db: SqliteLike): RunStep {
  let waiting: WaitingStep[] = [];

  function commit() {
    const steps = waiting;
    waiting = [];
    try {
      const answers = atomically(db, () => steps.map((step) => step.run()));
      for (const answer of answers) answer();
    } catch (error) {
      for (const step of steps) step.reject(error);
    }
  }

  return <Value>(step: () => Value) =>
    new Promise<Value>((resolve, reject) => {
      if (waiting.length === 0) setImmediate(commit);
      waiting.push({
        run() {
          const value = step();
          return () => resolve(value);
        },
        reject,
      });
    });
}
