import { randomBytes } from 'node:crypto';
import type { StreamEntry } from './api.js';

const KEPT = 1_000;
/** A page that falls further behind is disconnected and must reconnect, which limits the memory in use. */
const MAX_LAG = 200;
const PING_INTERVAL_MS = 15_000;
/** A page cannot show more, and ten pages then cost as little as one page. */
const SEND_INTERVAL_MS = 100;

type Reader = ReadableStreamDefaultController<Uint8Array>;

export function createStream() {
  // Each id contains the run, because a page can reconnect to another process, which has numbers of its own.
  const run = randomBytes(6).toString('hex');
  const encoder = new TextEncoder();
  const kept: string[] = [];
  const readers = new Set<Reader>();
  let unsent: string[] = [];
  let count = 0;
  /** Says since when the source has been lost. Pages that open later need this entry. */
  let lost: string | undefined;
  let sending: NodeJS.Timeout | undefined;
  let pings: NodeJS.Timeout | undefined;

  function send(text: string): void {
    const bytes = encoder.encode(text);
    for (const reader of readers) {
      if ((reader.desiredSize ?? 0) > 0) {
        reader.enqueue(bytes);
        continue;
      }
      remove(reader);
      reader.error(new Error('A page of the inspector was disconnected because it did not read the stream.'));
    }
  }

  function flush(): void {
    clearTimeout(sending);
    sending = undefined;
    if (unsent.length === 0) return;
    send(unsent.join(''));
    unsent = [];
  }

  function remove(reader: Reader): void {
    readers.delete(reader);
    if (readers.size > 0) return;
    clearInterval(pings);
    pings = undefined;
  }

  function since(id: string | null): readonly string[] | undefined {
    if (id === null) return [];
    const [, of, digits] = /^(\w+)-(\d+)$/.exec(id) ?? [];
    const missed = count - Number(digits);
    if (of !== run || !(missed >= 0 && missed <= kept.length)) return undefined;
    return kept.slice(kept.length - missed);
  }

  return {
    publish(entry: StreamEntry): void {
      count += 1;
      const data = `event: ${entry.kind}\ndata: ${JSON.stringify(entry)}\n\n`;
      const text = `id: ${run}-${count}\n${data}`;
      if (entry.kind === 'lost') lost = data;
      if (entry.kind === 'recovered') lost = undefined;
      kept.push(text);
      if (kept.length > KEPT) kept.shift();
      if (readers.size === 0) return;
      // Of several equal changes, only the last is sent, because each one makes pages request the same data.
      if (entry.kind === 'changed') unsent = unsent.filter((each) => !each.endsWith(data));
      unsent.push(text);
      sending ??= setTimeout(flush, SEND_INTERVAL_MS).unref();
    },
    position: () => `${run}-${count}`,
    /** The events missed since `Last-Event-ID` or `?after` come first, or `reset` if any of them have been dropped. */
    respond(request: Request): Response {
      // Unsent entries are only for the readers that were connected before.
      flush();
      const last = request.headers.get('last-event-id') ?? new URL(request.url).searchParams.get('after');
      const missed = since(last);
      let own: Reader;
      const body = new ReadableStream<Uint8Array>(
        {
          start(reader) {
            own = reader;
            readers.add(reader);
            // This id lets a page request the missed entries if it is disconnected before the first entry.
            const id = `${run}-${count - (missed?.length ?? 0)}`;
            const first = `retry: 1000\nid: ${id}\nevent: ${missed === undefined ? 'reset' : 'open'}\ndata: {}\n\n`;
            reader.enqueue(encoder.encode([first, ...(missed ?? []), lost ?? ''].join('')));
            pings ??= setInterval(() => send(': ping\n\n'), PING_INTERVAL_MS).unref();
          },
          cancel: () => remove(own),
        },
        new CountQueuingStrategy({ highWaterMark: MAX_LAG }),
      );
      return new Response(body, {
        headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
      });
    },
    isRead: () => readers.size > 0,
    close(): void {
      flush();
      for (const reader of readers) reader.close();
      readers.clear();
      clearInterval(pings);
    },
  };
}
