/** LISTEN over one connection, which hears when an event is due because another of its key has ended. */
import type { Runtime } from '../core/runtime.js';
import type { PgClientLike, PgLike, PgPoolLike } from './postgres-client.js';

/** How long it may take until a message to itself arrives, in ms. */
const PROOF_MS = 5_000;

const NOT_HEARD =
  'LISTEN does not work over this connection. A pooler in transaction mode, such as PgBouncer, passes no messages on: connect to the server itself.';

/** A client of `pg` or `@neondatabase/serverless`. */
interface ListeningClient extends PgClientLike {
  on(event: string, listener: (value: never) => void): unknown;
  removeListener(event: string, listener: (value: never) => void): unknown;
}

/** Whether it is a pool that lends clients. */
export function canListen(pool: PgLike): pool is PgPoolLike<ListeningClient> {
  return typeof (pool as Partial<PgPoolLike>).connect === 'function';
}

/**
 * Listens on a channel. The pool lends a client for it, until the returned function is called.
 *
 * Rejects unless a message arrives: behind a pooler that gives each statement another connection, LISTEN succeeds and
 * nothing is heard.
 */
export async function listenOn(
  pool: PgPoolLike<ListeningClient>,
  channel: string,
  {
    onDue,
    onEnd,
    runtime,
  }: {
    readonly onDue: () => void;
    readonly onEnd: (error: unknown) => void;
    readonly runtime: Runtime;
  },
): Promise<() => Promise<void>> {
  const client = await lend(pool);
  const proof = runtime.uuid();
  let hasEnded = false;
  let onProof = () => {};
  let onLost: (error: unknown) => void = () => {};

  function onNotification({ payload = '' }: { readonly payload?: string | undefined }): void {
    if (payload === proof) onProof();
    // Others prove that they hear, too.
    else if (payload === '') onDue();
  }
  function onClose(error: unknown = new Error('The connection has ended.')): void {
    onLost(error);
  }
  /** With an error, the pool closes the client. */
  function end(error?: unknown): void {
    if (hasEnded) return;
    hasEnded = true;
    client.removeListener('notification', onNotification);
    client.removeListener('end', onClose);
    // A client that is being closed can still emit an error.
    if (error === undefined) client.removeListener('error', onClose);
    client.release(error as Error | undefined);
  }
  async function prove(): Promise<void> {
    await client.query(`LISTEN "${channel}"`);
    // Over another connection: a pooler passes on what arrives while a statement runs.
    await pool.query('SELECT pg_catalog.pg_notify($1, $2)', [channel, proof]);
  }

  client.on('notification', onNotification);
  client.on('error', onClose);
  client.on('end', onClose);
  const heard = new Promise<void>((resolve, reject) => {
    onProof = resolve;
    onLost = reject;
  });
  const timer = runtime.setTimeout(() => onLost(new Error(NOT_HEARD)), PROOF_MS);
  try {
    prove().catch(onLost);
    await heard;
  } catch (error) {
    end(error);
    throw error;
  } finally {
    runtime.clearTimeout(timer);
  }
  onLost = (error) => {
    if (hasEnded) return;
    end(error);
    onEnd(error);
  };
  return async () => {
    if (hasEnded) return;
    const unlistened = client.query(`UNLISTEN "${channel}"`);
    // It was stopped: the end of the connection is expected from here on.
    onLost = () => {};
    await unlistened.then(
      () => end(),
      (error) => end(error),
    );
  };
}

async function lend(pool: PgPoolLike<ListeningClient>): Promise<ListeningClient> {
  const { options } = pool as { readonly options?: { readonly max?: unknown } };
  if (options?.max === 1) {
    throw new Error('LISTEN keeps a connection of the pool, and this pool has one. Raise its `max`.');
  }
  return pool.connect();
}
