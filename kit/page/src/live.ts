import { signal } from '@preact/signals';
import type { StreamEntry, View } from '../../src/inspector/api.js';
import { ask, RequestFailed } from './server';

/** `reset` means that entries were missed, so the page must request everything again. */
export type LiveEntry = StreamEntry | { readonly kind: 'reset' };

/** `since` is an ISO 8601 time. `refused` says why the server refuses the stream. */
export const connection = signal<{
  readonly open: boolean;
  readonly since: string;
  readonly refused?: string | undefined;
}>({ open: true, since: new Date().toISOString() });

export const lost = signal<Extract<StreamEntry, { readonly kind: 'lost' }> | undefined>(undefined);

const KINDS: readonly LiveEntry['kind'][] = ['changed', 'lost', 'recovered', 'reset'];
const REOPEN_AFTER_MS = 2_000;

const listeners = new Set<(entry: LiveEntry) => void>();
/** A tab that takes over the stream must not miss an entry. */
let lastId: string | undefined;

export function onLive(listener: (entry: LiveEntry) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function staleFor(view: View): (entry: LiveEntry) => boolean {
  return (entry) =>
    entry.kind === 'reset' || entry.kind === 'recovered' || (entry.kind === 'changed' && entry.view === view);
}

export function tellChanged(view: View): void {
  for (const listener of listeners) listener({ kind: 'changed', view });
}

type Shared =
  | { readonly entry: LiveEntry; readonly id: string }
  | { readonly connection: typeof connection.value }
  | { readonly hello: true };

/** Only one tab opens the stream for all tabs, because a browser allows six connections per host. */
export function follow(position: string): void {
  if (lastId !== undefined) return;
  lastId = position;
  // Browsers provide locks only to secure origins. The loopback address counts as secure.
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
      if (!isReading) return;
      share({ connection: connection.value });
      if (lost.value !== undefined && lastId !== undefined) share({ entry: lost.value, id: lastId });
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
    return new Promise(() => undefined);
  });
}

function tell(entry: LiveEntry, id: string): void {
  lastId = id;
  if (entry.kind === 'lost') lost.value = entry;
  // After `reset`, the server reports again that the source is lost.
  if (entry.kind === 'recovered' || entry.kind === 'reset') lost.value = undefined;
  for (const listener of listeners) listener(entry);
}

function read(share: (shared: Shared) => void): void {
  const source = new EventSource(`./api/stream?${new URLSearchParams({ after: lastId ?? '' })}`);
  const connect = (now: typeof connection.value) => {
    connection.value = now;
    share({ connection: now });
  };
  source.addEventListener('open', () => connect({ open: true, since: new Date().toISOString() }));
  for (const kind of KINDS) {
    source.addEventListener(kind, ({ data, lastEventId: id }: MessageEvent<string>) => {
      const entry = { kind, ...JSON.parse(data) } as LiveEntry;
      tell(entry, id);
      share({ entry, id });
    });
  }
  source.addEventListener('error', async () => {
    const { open, since } = connection.value;
    if (open) connect({ open: false, since: new Date().toISOString() });
    // The browser reconnects by itself, unless the server responded with an error.
    if (source.readyState !== EventSource.CLOSED) return;
    const refused = await findRefusal();
    if (refused !== undefined)
      connect({ open: false, since: open ? connection.value.since : since, refused });
    setTimeout(() => read(share), REOPEN_AFTER_MS);
  });
}

/** An `EventSource` does not report why the server refuses the stream. */
async function findRefusal(): Promise<string | undefined> {
  try {
    await ask('session');
    return undefined;
  } catch (error) {
    if (!(error instanceof RequestFailed) || error.status === 0) return undefined;
    return error.status === 401
      ? 'The process was restarted. Open the new URL that it printed.'
      : error.message;
  }
}
