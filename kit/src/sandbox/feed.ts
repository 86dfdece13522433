/**
 * An entry of the feed: something that happened in the sandbox. It has a kind, such as `event.fired` or
 * `wallet.created`, and data.
 */
export interface FeedEntry {
  readonly kind: string;
  /** When it happened by the sandbox's clock, in ISO 8601. */
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
        // An error of a listener must not undo the change, nor stop the other listeners.
        try {
          listener(entry);
        } catch (error) {
          console.error(error);
        }
      }
    },
    /** Calls the listener with each entry from now on, until the returned function is called. */
    subscribe: (listener: (entry: FeedEntry) => void): (() => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** How many entries a reader of the stream may be behind before it is disconnected. This bounds the memory. */
const MAX_LAG = 10_000;

/** How often a comment is sent, in ms, because a client or a proxy may close a stream that is silent for minutes. */
const PING_INTERVAL_MS = 15_000;

/** Streams the feed as server-sent events, each entry as `event: <kind>`, until the reader disconnects. */
export function streamFeed(feed: Feed): Response {
  const encoder = new TextEncoder();
  let stop = () => {};
  const body = new ReadableStream<Uint8Array>(
    {
      start: (reader) => {
        // Sent immediately, so the reader knows that it misses nothing after it.
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
          // Unlike `close`, this drops the queued entries and disconnects.
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
