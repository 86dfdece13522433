/** The feed as server-sent events, for whoever watches the sandbox over HTTP. */
import type { Feed, FeedEntry } from './feed.js';

/** A reader that falls further behind than this is cut off: the sandbox does not remember for it without bound. */
const LONGEST_LAG = 10_000;

/** Streams each entry as `event: <kind>` with the entry as its data, until the reader goes away. */
export function streamFeed(feed: Feed): Response {
  const encoder = new TextEncoder();
  let unsubscribe = () => {};
  const body = new ReadableStream<Uint8Array>(
    {
      start: (reader) => {
        // Says at once that the stream is open, so that the reader knows that nothing from now on is missed.
        reader.enqueue(encoder.encode(': open\n\n'));
        unsubscribe = feed.subscribe((entry) => {
          if ((reader.desiredSize ?? 0) > 0) return reader.enqueue(encoder.encode(toText(entry)));
          unsubscribe();
          // Unlike a proper end, this drops what waits, and cuts the connection.
          reader.error(
            new Error(`A reader of the stream was cut off: it fell ${LONGEST_LAG} entries behind.`),
          );
        });
      },
      cancel: () => unsubscribe(),
    },
    new CountQueuingStrategy({ highWaterMark: LONGEST_LAG }),
  );
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
  });
}

function toText(entry: FeedEntry): string {
  return `event: ${entry.kind}\ndata: ${JSON.stringify(entry)}\n\n`;
}
