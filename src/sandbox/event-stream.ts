/** The feed as server-sent events, for whoever watches the sandbox over HTTP. */
import type { Context } from 'hono';
import { streamSSE } from 'hono/streaming';
import type { Feed, FeedEntry } from './feed.js';
import { Fifo } from './fifo.js';

/** A reader that falls further behind than this is cut off: the sandbox does not remember for it without bound. */
const LONGEST_LAG = 10_000;

/** Streams each entry as `event: <kind>` with the entry as its data, until the reader goes away. */
export function streamFeed(context: Context, { feed }: { readonly feed: Feed }): Response {
  return streamSSE(context, async (stream) => {
    const waiting = new Fifo<FeedEntry>();
    let wake = () => {};
    let open = true;
    const stop = () => {
      open = false;
      wake();
    };
    stream.onAbort(stop);
    const unsubscribe = feed.subscribe((entry) => {
      waiting.push(entry);
      if (waiting.length > LONGEST_LAG) stop();
      wake();
    });
    // Says at once that the stream is open, so that the reader knows that nothing from now on is missed.
    await stream.write(': open\n\n');
    while (open) {
      const entry = waiting.shift();
      if (entry !== undefined) await stream.writeSSE({ event: entry.kind, data: JSON.stringify(entry) });
      else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
    unsubscribe();
  });
}
