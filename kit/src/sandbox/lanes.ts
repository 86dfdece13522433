/** Lanes: so many jobs at once towards one endpoint, so that one that never answers holds up only itself. */
import { Fifo } from './fifo.js';

interface Lane<Job> {
  active: number;
  readonly waiting: Fifo<Job>;
}

/** Jobs in the order in which they came, lane by lane. */
interface Lanes<Job> {
  push(job: Job, options: { readonly lane: string }): void;
  /** Begins no further job. */
  close(): void;
}

/** Makes lanes; `work` never rejects. */
export function createLanes<Job>({
  concurrency,
  work,
}: {
  readonly concurrency: number;
  readonly work: (job: Job) => Promise<void>;
}): Lanes<Job> {
  const lanes = new Map<string, Lane<Job>>();
  let closed = false;

  function pump(lane: Lane<Job>): void {
    while (!closed && lane.active < concurrency) {
      const job = lane.waiting.shift();
      if (job === undefined) return;
      lane.active += 1;
      work(job).then(() => {
        lane.active -= 1;
        pump(lane);
      });
    }
  }

  return {
    push(job, { lane: name }) {
      const lane = lanes.get(name) ?? { active: 0, waiting: new Fifo<Job>() };
      lanes.set(name, lane);
      lane.waiting.push(job);
      pump(lane);
    },
    close() {
      closed = true;
    },
  };
}
