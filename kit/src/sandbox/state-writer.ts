import { constants, statSync } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import type { Feed } from './feed.js';
import type { StateHead, StateRecord } from './state.js';
import type { LockedStateFile } from './state-lock.js';
import { HEADER, type SavedLine } from './state-reader.js';

interface StateSource {
  readonly feed: Feed;
  head(): StateHead;
  /** The whole state, read in slices between which it can change. */
  records(): Iterable<StateRecord>;
}

/** Keeps the state of a sandbox in its file. */
export interface StateKeeper {
  /** Each record that is new or has changed must be passed here. */
  readonly changed: (record: StateRecord) => void;
  /** Makes the next save write everything, because the state was replaced. */
  replaced(): void;
  /** Stops without a save: the file is left as it is. */
  discard(): void;
  /** Saves now. */
  save(): Promise<void>;
  /** Saves a last time, and releases the file. */
  close(): Promise<void>;
}

/** Keeps nothing. */
export const NO_KEEPER: StateKeeper = {
  changed: () => {},
  replaced: () => {},
  discard: () => {},
  save: async () => {},
  close: async () => {},
};

/** The log is rewritten once it has doubled and grown by this many bytes since it was last rewritten. */
const SLACK_BYTES = 16 * 1_048_576;

/** How much is serialized and written before other work can run: well under a millisecond. */
const SLICE_CHARS = 65_536;

/**
 * Saves the state `saveAfterMs` after a change, and never twice at the same time. A save appends the changes, and sometimes
 * rewrites the log. Both are done in slices, between which the event loop runs.
 */
export function keepState(
  { feed, head, records }: StateSource,
  {
    file: { path, release },
    saveAfterMs,
    appendable,
  }: {
    readonly file: LockedStateFile;
    readonly saveAfterMs: number;
    /** Whether the file exists and the next save can be appended. */
    readonly appendable: boolean;
  },
): StateKeeper {
  /** The changes since the last save, as lines of the log. */
  let lines: string[] = [];
  let mustRewrite = !appendable;
  let replacements = 0;
  let size = appendable ? statSync(path).size : 0;
  let rewrittenSize = size;
  let writing = Promise.resolve();
  let timeout: NodeJS.Timeout | undefined;
  let closing: Promise<void> | undefined;

  /** The changes, and the line that makes them count. */
  function takeLines(): readonly string[] {
    const saved: SavedLine = { saved: head() };
    const taken = lines;
    taken.push(toLine(saved));
    lines = [];
    return taken;
  }

  function* allLines(): Generator<string> {
    yield toLine(HEADER);
    for (const record of records()) yield toLine(record);
  }

  async function write(): Promise<void> {
    try {
      const isLong = size > 2 * rewrittenSize + SLACK_BYTES;
      if (mustRewrite || isLong || !(await append())) await rewrite();
    } catch (error) {
      // The changes may be lost, and the file may end with half a line.
      mustRewrite = true;
      throw error;
    }
  }

  /** `false` when the file differs from the last save. */
  async function append(): Promise<boolean> {
    // Without O_CREAT, because a file that was removed needs all records again.
    const handle = await open(path, constants.O_WRONLY | constants.O_APPEND).catch(() => undefined);
    if (handle === undefined) return false;
    try {
      if ((await handle.stat()).size !== size) return false;
      size += await writeLines(handle, takeLines());
      return true;
    } finally {
      await handle.close();
    }
  }

  /** Replaces the file by another one. After a crash, one of the two is complete. */
  async function rewrite(): Promise<void> {
    const draft = `${path}.draft`;
    const before = replacements;
    lines = [];
    await rm(draft, { force: true });
    // Only its owner can read it, because it contains secrets.
    const handle = await open(draft, 'wx', 0o600);
    let written = 0;
    try {
      written += await writeLines(handle, allLines());
      // The changes meanwhile. A record that occurs twice counts once.
      written += await writeLines(handle, takeLines());
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (before !== replacements) return rewrite();
    await rename(draft, path);
    size = written;
    rewrittenSize = written;
    // The state can be replaced during the rename as well.
    mustRewrite = before !== replacements;
  }

  function save(): Promise<void> {
    clearTimeout(timeout);
    timeout = undefined;
    writing = writing.then(write, write);
    return writing;
  }

  const warn = (error: Error) =>
    console.error(`stablehooks: the sandbox could not save its state to ${path}: ${error.message}`);
  const saveSoon = () => {
    // A failure does not end the sandbox: the next save tries again, and `close` rejects.
    timeout ??= setTimeout(() => save().catch(warn), saveAfterMs).unref();
  };
  // Faults, endpoints and the clock have no records.
  const unsubscribe = feed.subscribe(saveSoon);

  return {
    changed: (record) => {
      if (closing !== undefined) return;
      lines.push(toLine(record));
      saveSoon();
    },
    replaced: () => {
      lines = [];
      mustRewrite = true;
      replacements += 1;
    },
    discard: () => {
      unsubscribe();
      clearTimeout(timeout);
      closing = Promise.resolve();
    },
    save: () => closing ?? save(),
    close: () => {
      unsubscribe();
      closing ??= save().finally(release);
      return closing;
    },
  };
}

function toLine(value: StateRecord | SavedLine | typeof HEADER): string {
  return `${JSON.stringify(value)}\n`;
}

/** Returns the number of bytes. */
async function writeLines(handle: FileHandle, lines: Iterable<string>): Promise<number> {
  let bytes = 0;
  let slice = '';
  const flush = async () => {
    const buffer = Buffer.from(slice);
    slice = '';
    await handle.writeFile(buffer);
    bytes += buffer.length;
  };
  for (const line of lines) {
    slice += line;
    if (slice.length >= SLICE_CHARS) await flush();
  }
  await flush();
  return bytes;
}
