/** A durable queue as the engines are: it gives a job to a worker, again if the worker dies, and drops what fails too often. */
import type { Queue, UnknownEvent } from 'stablehooks';
import type { Promises } from './promises.js';
import type { Faults } from './scenario.js';
import type { Process, World } from './world.js';

export interface Job {
  readonly event: UnknownEvent;
  readonly json: string | undefined;
  attempts: number;
  /** When a worker can take it, the first time or because the one before has died. */
  visibleAt: number;
}

/** After how many failures a job is dropped. */
const MAX_ATTEMPTS = 4;

/** After how long a job is given to another worker. */
const VISIBILITY_MS = 30_000;

export class SimulatedQueue {
  readonly #jobs = new Map<string, Job>();
  readonly #world: World;
  readonly #promises: Promises;
  readonly #faults: Partial<Faults>;

  constructor(world: World, promises: Promises, faults: Partial<Faults>) {
    this.#world = world;
    this.#promises = promises;
    this.#faults = faults;
  }

  get size(): number {
    return this.#jobs.size;
  }

  /** The queue as one process sees it. */
  portOf(process: Process): Queue {
    const world = this.#world;
    return {
      enqueue: async (event, { json } = {}) => {
        await world.hop(process, 'asks the queue: enqueue', event.id);
        if (world.strikes('queueFails', this.#faults.queueFails)) throw new Error('The connection was lost.');
        this.#enqueue(event, json);
        world.note(process, 'takes effect: enqueue', event.id);
        if (world.strikes('queueAnswerLost', this.#faults.queueAnswerLost)) {
          await world.hop(process, 'the answer of the queue is lost', event.id);
          throw new Error('The connection was lost.');
        }
        await world.hop(process, 'the queue answers: enqueue', event.id);
      },
    };
  }

  #enqueue(event: UnknownEvent, json: string | undefined): void {
    this.#promises.enqueued(event);
    if (this.#jobs.has(event.id)) return;
    const { now } = this.#world;
    const lateMs = this.#world.strikes('jobLate', this.#faults.jobLate) ? 20_000 : 0;
    this.#jobs.set(event.id, { event, json, attempts: 0, visibleAt: now + lateMs });
  }

  take(): Job | undefined {
    const { now } = this.#world;
    for (const job of this.#jobs.values()) {
      if (job.visibleAt > now) continue;
      const isRepeated = this.#world.strikes('jobRepeated', this.#faults.jobRepeated);
      job.visibleAt = isRepeated ? now + 1 : now + VISIBILITY_MS;
      job.attempts += 1;
      return job;
    }
    return undefined;
  }

  end({ event }: Job, isFailed: boolean): void {
    const job = this.#jobs.get(event.id);
    if (job === undefined) return;
    if (!isFailed) this.#jobs.delete(event.id);
    else if (job.attempts < MAX_ATTEMPTS) job.visibleAt = this.#world.now + 1_000 * 2 ** job.attempts;
    else {
      this.#world.count('a queue drops a job');
      this.#jobs.delete(event.id);
    }
  }
}
