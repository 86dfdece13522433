/** The feed: tells whoever listens what happens in the sandbox, as it happens. */

/** One thing that happened: `event.fired`, `attempt.made`, `wallet.created` and so on, and its data. */
export interface FeedEntry {
  readonly kind: string;
  /** By the sandbox's clock, ISO 8601. */
  readonly at: string;
  readonly data: unknown;
}

export interface Feed {
  publish(kind: string, data: unknown): void;
  /** Calls the listener with each entry from now on, until the answered function is called; logs what it throws. */
  subscribe(listener: (entry: FeedEntry) => void): () => void;
}

export function createFeed({ now }: { readonly now: () => number }): Feed {
  const listeners = new Set<(entry: FeedEntry) => void>();
  return {
    publish: (kind, data) => {
      if (listeners.size === 0) return;
      const entry: FeedEntry = { kind, at: new Date(now()).toISOString(), data };
      for (const listener of listeners) {
        // Whoever only watches must neither undo what happened nor keep it from the others.
        try {
          listener(entry);
        } catch (error) {
          console.error(error);
        }
      }
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
