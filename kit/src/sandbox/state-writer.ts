import { open, rename, rm } from 'node:fs/promises';
import type { Feed } from './feed.js';
import type { StateHead, StateRecord } from './state.js';
import type { LockedStateFile } from './state-lock.js';
import { HEADER, type SavedLine } from './state-reader.js';

interface StateSource {
  readonly feed: Feed;
  head(): StateHead;
  records(): Iterable<StateRecord>;
}

/** For a sandbox without a file. */
export const NO_KEEPER: ReturnType<typeof keepState> = {
  discard: () => {},
  save: async () => {},
  close: async () => {},
};

/** A save of a large state takes at most one part in this many of the time. */
const PARTS_OF_TIME = 10;

/** How much is serialized and written before other work can run: well under a millisecond. */
const SLICE_CHARS = 65_536;

/**
 * Keeps the state of a sandbox in its file. Saves the whole state `saveAfterMs` after a change or later, and never twice at
 * the same time.
 */
export function keepState(
  { feed, head, records }: StateSource,
  { file: { path, release }, saveAfterMs }: { readonly file: LockedStateFile; readonly saveAfterMs: number },
) {
  let writing = Promise.resolve();
  let tookMs = 0;
  let timeout: NodeJS.Timeout | undefined;
  let closing: Promise<void> | undefined;

  async function write(): Promise<void> {
    const startedAt = performance.now();
    // Collected in one step, so that the parts agree. No record changes later, except that an event becomes delivered.
    const saved: SavedLine = { saved: head() };
    await replaceState(path, [HEADER, ...records(), saved]);
    tookMs = performance.now() - startedAt;
  }

  function save(): Promise<void> {
    clearTimeout(timeout);
    timeout = undefined;
    writing = writing.then(write, write);
    return writing;
  }

  const warn = (error: Error) =>
    console.error(`stablehooks: the sandbox could not save its state to ${path}: ${error.message}`);
  const unsubscribe = feed.subscribe(() => {
    // A failure does not end the sandbox: the next save tries again, and `close` rejects.
    const waitMs = Math.max(saveAfterMs, tookMs * PARTS_OF_TIME);
    timeout ??= setTimeout(() => save().catch(warn), waitMs).unref();
  });

  return {
    /** Stops without a save: the file is left as it is. */
    discard: (): void => {
      unsubscribe();
      clearTimeout(timeout);
      closing = Promise.resolve();
    },
    save: (): Promise<void> => closing ?? save(),
    /** Saves a last time, and releases the file. */
    close: (): Promise<void> => {
      unsubscribe();
      closing ??= save().finally(release);
      return closing;
    },
  };
}

/**
 * Replaces the file by these lines, in slices between which the event loop runs. After a crash, the file is the previous or
 * the new one.
 */
async function replaceState(path: string, lines: Iterable<object>): Promise<void> {
  const draft = `${path}.draft`;
  await rm(draft, { force: true });
  // Only its owner can read it, because it contains secrets.
  const handle = await open(draft, 'wx', 0o600);
  try {
    let slice = '';
    for (const line of lines) {
      slice += `${JSON.stringify(line)}\n`;
      if (slice.length < SLICE_CHARS) continue;
      await handle.writeFile(slice);
      slice = '';
    }
    await handle.writeFile(slice);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, path);
}
