/** When the state is saved: some time after a change, on request, and at the end; never two writes at once. */
import type { Feed } from './feed.js';
import { type SandboxState, writeState } from './state-file.js';

interface StateKeeper {
  /** Saves now. */
  save(): Promise<void>;
  /** Saves for the last time. */
  close(): Promise<void>;
}

export function keepState(
  parts: { readonly feed: Feed; readonly state: () => SandboxState },
  { path, saveAfterMs }: { readonly path: string | undefined; readonly saveAfterMs: number },
): StateKeeper {
  if (path === undefined) return { save: async () => {}, close: async () => {} };
  let writing = Promise.resolve();
  let timeout: NodeJS.Timeout | undefined;

  const save = () => {
    clearTimeout(timeout);
    timeout = undefined;
    const write = () => writeState(path, parts.state());
    writing = writing.then(write, write);
    return writing;
  };
  const warn = (error: Error) =>
    console.error(`stablehooks: the sandbox could not save its state to ${path}: ${error.message}`);
  const unsubscribe = parts.feed.subscribe(() => {
    // The next save tries again, and `close` rejects: a full disk does not end the sandbox.
    timeout ??= setTimeout(() => save().catch(warn), saveAfterMs).unref();
  });
  return {
    save,
    close: () => {
      unsubscribe();
      return save();
    },
  };
}
