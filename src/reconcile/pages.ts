import { nextTurn, type Runtime } from '../core/runtime.js';

/** Small, so that pages become garbage before they reach the old generation. */
export const PAGE_SIZE = 500;

const LOOKUPS = 16;

interface Turns {
  readonly runtime: Runtime;
  readonly signal: AbortSignal;
}

export async function* inPages<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  turns: Turns,
  size = PAGE_SIZE,
): AsyncGenerator<readonly Item[], void, undefined> {
  let page: Item[] = [];
  for await (const item of items) {
    page.push(item);
    if (page.length < size) continue;
    yield page;
    await takeTurn(turns);
    page = [];
  }
  if (page.length === 0) return;
  yield page;
  await takeTurn(turns);
}

export async function inParallel<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  await Promise.all(
    Array.from({ length: LOOKUPS }, async () => {
      for (const item of queue) await work(item);
    }),
  );
}

/** Otherwise, requests, timers and Ctrl-C would wait, because a database in this process responds synchronously. */
export async function takeTurn({ runtime, signal }: Turns): Promise<void> {
  await nextTurn(runtime);
  signal.throwIfAborted();
}
