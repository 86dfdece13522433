import { randomBytes } from 'node:crypto';
import type { AttemptRow, View } from './api.js';

/** What the page is told as it happens. */
export type StreamEntry =
  /** An attempt was made. */
  | { readonly kind: 'attempt'; readonly row: AttemptRow }
  /** What a view shows has changed: it asks again. */
  | { readonly kind: 'changed'; readonly view: View }
  /** The source cannot be read since `since` (ISO 8601). */
  | { readonly kind: 'lost'; readonly since: string; readonly why: string }
  | { readonly kind: 'recovered' };

/** Tells every page what happens. */
export interface Stream {
  publish(entry: StreamEntry): void;
  /**
   * Answers with server-sent events. With `Last-Event-ID` it begins with what was missed since; if that is no longer
   * known, with `reset`, and the page asks for everything again.
   */
  respond(request: Request): Response;
  close(): void;
}

/** How many entries are kept for pages that reconnect. */
const KEPT = 1_000;
/** How many entries a page may be behind before it is disconnected, which bounds the memory. It then reconnects. */
const MAX_LAG = 2_000;
const PING_INTERVAL_MS = 15_000;

/** Creates a stream. Each entry is serialized once, however many pages read it. */
export function createStream(): Stream {
  // A page that reconnects to another process must not take its numbers for those of this one.
  const run = randomBytes(6).toString('hex');
  const encoder = new TextEncoder();
  const kept: Uint8Array[] = [];
  const readers = new Set<ReadableStreamDefaultController<Uint8Array>>();
  let count = 0;
  let pings: NodeJS.Timeout | undefined;

  function send(reader: ReadableStreamDefaultController<Uint8Array>, bytes: Uint8Array): void {
    if ((reader.desiredSize ?? 0) > 0) return reader.enqueue(bytes);
    remove(reader);
    reader.error(new Error('A page of the inspector was disconnected, because it did not read.'));
  }

  function remove(reader: ReadableStreamDefaultController<Uint8Array>): void {
    readers.delete(reader);
    if (readers.size > 0) return;
    clearInterval(pings);
    pings = undefined;
  }

  /** The entries after the given id, or `undefined` if some of them are not kept. */
  function since(id: string | null): readonly Uint8Array[] | undefined {
    if (id === null) return [];
    const [, of, digits] = /^(\w+)-(\d+)$/.exec(id) ?? [];
    const missed = count - Number(digits);
    if (of !== run || !(missed >= 0 && missed <= kept.length)) return undefined;
    return kept.slice(kept.length - missed);
  }

  return {
    publish(entry) {
      count += 1;
      const bytes = encoder.encode(`id: ${run}-${count}\nevent: ${entry.kind}\ndata: ${JSON.stringify(entry)}\n\n`);
      kept.push(bytes);
      if (kept.length > KEPT) kept.shift();
      for (const reader of readers) send(reader, bytes);
    },
    respond(request) {
      let own: ReadableStreamDefaultController<Uint8Array>;
      const body = new ReadableStream<Uint8Array>(
        {
          start(reader) {
            own = reader;
            readers.add(reader);
            const missed = since(request.headers.get('last-event-id'));
            // Its id makes a page that is disconnected before the first entry ask for what it misses.
            reader.enqueue(
              encoder.encode(`retry: 1000\nid: ${run}-${missed === undefined ? count : count - missed.length}\nevent: ${missed === undefined ? 'reset' : 'open'}\ndata: {}\n\n`),
            );
            for (const bytes of missed ?? []) reader.enqueue(bytes);
            pings ??= setInterval(() => {
              for (const each of readers) send(each, encoder.encode(': ping\n\n'));
            }, PING_INTERVAL_MS).unref();
          },
          cancel: () => remove(own),
        },
        new CountQueuingStrategy({ highWaterMark: MAX_LAG }),
      );
      return new Response(body, { headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' } });
    },
    close() {
      for (const reader of readers) reader.close();
      readers.clear();
      clearInterval(pings);
    },
  };
}
