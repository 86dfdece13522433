/** An entry in the feed. `kind` says what happened in the sandbox, for example `event.fired` or `wallet.created`. */
export interface FeedEntry {
  readonly kind: string;
  /** When this happened, by the sandbox's clock, in ISO 8601. */
  readonly at: string;
  readonly data: unknown;
}

export type Feed = ReturnType<typeof createFeed>;

export function createFeed(now: () => number) {
  const listeners = new Set<(entry: FeedEntry) => void>();
  return {
    publish: (kind: string, data: unknown): void => {
      if (listeners.size === 0) return;
      const entry: FeedEntry = { kind, at: new Date(now()).toISOString(), data };
      for (const listener of listeners) {
        // If a listener throws, this must neither undo the change nor keep other listeners from being called.
        try {
          listener(entry);
        } catch (error) {
          console.error(error);
        }
      }
    },
    subscribe: (listener: (entry: FeedEntry) => void): (() => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** A reader that falls further behind than this many entries is disconnected, because queued entries take up memory. */
const MAX_LAG = 10_000;

/** The time between two comments in the stream, in ms. Without them, a client or proxy could close a silent stream. */
const PING_INTERVAL_MS = 15_000;

export function streamFeed(feed: Feed): Response {
  const encoder = new TextEncoder();
  let stop = () => {};
  const body = new ReadableStream<Uint8Array>(
    {
      start: (reader) => {
        // Sent immediately to tell the reader that it misses no entries from now on.
        reader.enqueue(encoder.encode(': open\n\n'));
        const pings = setInterval(() => {
          if ((reader.desiredSize ?? 0) > 0) reader.enqueue(encoder.encode(': ping\n\n'));
        }, PING_INTERVAL_MS).unref();
        const unsubscribe = feed.subscribe((entry) => {
          if ((reader.desiredSize ?? 0) > 0) {
            reader.enqueue(encoder.encode(`event: ${entry.kind}\ndata: ${JSON.stringify(entry)}\n\n`));
            return;
          }
          stop();
          // Unlike `close`, this drops the queued entries and disconnects the reader.
          reader.error(
            new Error(`A reader of the stream was disconnected: it was ${MAX_LAG} entries behind.`),
          );
        });
        stop = () => {
          clearInterval(pings);
          unsubscribe();
        };
      },
      cancel: () => stop(),
    },
    new CountQueuingStrategy({ highWaterMark: MAX_LAG }),
  );
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
  });
}
