import { signal } from '@preact/signals';
import type { StreamEntry, View } from '../../src/inspector/api.js';

/** What listeners get: an entry of the stream, or `reset` when some were missed and everything is asked for again. */
export type LiveEntry = StreamEntry | { readonly kind: 'reset' };

/** Whether the stream is open; if not, since when (ISO 8601). */
export const connection = signal<{ readonly open: boolean; readonly since: string }>({
  open: true,
  since: new Date().toISOString(),
});

const KINDS: readonly LiveEntry['kind'][] = ['attempt', 'changed', 'lost', 'recovered', 'reset'];
const REOPEN_AFTER_MS = 2_000;

const listeners = new Set<(entry: LiveEntry) => void>();
/** The id of the last entry, so that the tab that takes over misses none. */
let lastId: string | undefined;

/** Calls the listener with each entry, until the returned function is called. */
export function onLive(listener: (entry: LiveEntry) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Which entries make what a view shows stale. */
export function staleFor(view: View): (entry: LiveEntry) => boolean {
  return (entry) =>
    entry.kind === 'reset' || entry.kind === 'recovered' || (entry.kind === 'changed' && entry.view === view);
}

/** Tells the listeners what an action of this page has changed, before the stream does. */
export function tellChanged(view: View): void {
  for (const listener of listeners) listener({ kind: 'changed', view });
}

/** What the tab with the stream tells the others. */
type Shared =
  | { readonly entry: LiveEntry; readonly id: string }
  | { readonly connection: typeof connection.value }
  | { readonly hello: true };

/**
 * Follows the stream. A browser keeps six connections to a host, so one tab holds the stream and shares it with the
 * others; when it is closed, the next one takes over.
 */
export function follow(): void {
  if (!('locks' in navigator)) {
    read(() => undefined);
    return;
  }
  const name = `stablehooks-inspector:${location.pathname}`;
  const channel = new BroadcastChannel(name);
  let isReading = false;
  const share = (shared: Shared) => channel.postMessage(shared);
  channel.onmessage = ({ data }: MessageEvent<Shared>) => {
    if ('hello' in data) {
      if (isReading) share({ connection: connection.value });
    } else if ('entry' in data) {
      tell(data.entry, data.id);
    } else {
      connection.value = data.connection;
    }
  };
  share({ hello: true });
  navigator.locks.request(name, () => {
    isReading = true;
    read(share);
    // Held until the tab is closed.
    return new Promise(() => undefined);
  });
}

function tell(entry: LiveEntry, id: string): void {
  lastId = id;
  for (const listener of listeners) listener(entry);
}

function read(share: (shared: Shared) => void): void {
  const source = new EventSource(lastId === undefined ? './api/stream' : `./api/stream?after=${lastId}`);
  const setOpen = (open: boolean) => {
    if (connection.value.open === open) return;
    connection.value = { open, since: new Date().toISOString() };
    share({ connection: connection.value });
  };
  source.addEventListener('open', (event) => {
    setOpen(true);
    // The first entry of the stream: its id is needed also when nothing happens before the connection is lost.
    if ('lastEventId' in event && typeof event.lastEventId === 'string') lastId = event.lastEventId;
  });
  for (const kind of KINDS) {
    source.addEventListener(kind, ({ data, lastEventId: id }: MessageEvent<string>) => {
      const entry = { kind, ...JSON.parse(data) } as LiveEntry;
      tell(entry, id);
      share({ entry, id });
    });
  }
  source.addEventListener('error', () => {
    setOpen(false);
    // The browser tries again by itself, unless the server answered with an error.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => read(share), REOPEN_AFTER_MS);
  });
}
