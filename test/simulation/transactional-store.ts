/** A store with transactions, over the memory inbox: as a database server has them, with a lock for each id. */
import type { Inbox, InboxOperations, InboxStep, Lease, RecordResult, UnknownEvent } from 'stablehooks';

export type Store = Omit<Inbox, 'transaction' | 'firstLease' | 'rehearse'>;

/** Each call is atomic: no other one begins before it has taken effect. */
export interface TransactionalStore extends Store {
  /** Begins a transaction. Returns its time limit in ms, or `undefined` if it must not go on. */
  begin(lease: Lease): Promise<number | undefined>;
  /** Marks the event done. Returns `false` if the lease is lost. */
  commit(lease: Lease): Promise<boolean>;
  /** Ends a transaction that did not commit, if it is open. */
  rollBack(lease: Lease): void;
}

/** How long a claim of an event waits whose first attempt runs. */
const RUNNING_RETRY_MS = 1_000;

export function withTransactions(
  inbox: Store & InboxOperations,
  { now }: { readonly now: () => number },
): TransactionalStore {
  /** The tokens of the first attempts whose transactions are open, by the id of the event. */
  const running = new Map<string, string>();
  /** The steps of first attempts, by the id of the event, and the token of the attempt that owns them. */
  const unstored = new Map<string, { readonly token: string; readonly steps: InboxStep[] }>();

  /** The tokens of the transactions that were committed, by the id of the event. */
  const committed = new Map<string, string>();

  const isStored = async (id: string) => (await inbox.find(id)) !== undefined;

  /** Stores each event that does not run. */
  async function storePage(
    events: readonly UnknownEvent[],
    store: (index: number) => ReturnType<Store['ignore']>,
  ): Promise<readonly RecordResult[]> {
    const results: RecordResult[] = [];
    for (const [index, { id }] of events.entries()) {
      const [result] = running.has(id) ? (['running'] as const) : await store(index);
      results.push(result as RecordResult);
    }
    return results;
  }

  const claim: Store['claim'] = async (event, options) => {
    if (running.has(event.id)) return { state: 'leased', retryAfterMs: RUNNING_RETRY_MS };
    const answer = await inbox.claim(event, options);
    if (answer.state !== 'claimed') return answer;
    const { steps = [] } = unstored.get(event.id) ?? {};
    for (const { name, result } of steps) await inbox.saveStep?.(answer.lease, name, result);
    unstored.delete(event.id);
    return answer;
  };

  return {
    ...inbox,
    claim,

    record: (events, { json, keys, ...options }) =>
      storePage(events, (index) => {
        const one = events.slice(index, index + 1);
        return inbox.record(one, {
          ...options,
          json: json?.slice(index, index + 1),
          keys: keys?.slice(index, index + 1),
        });
      }),

    ignore: (events, { json, ...options }) =>
      storePage(events, (index) =>
        inbox.ignore(events.slice(index, index + 1), { ...options, json: json?.slice(index, index + 1) }),
      ),

    async begin({ id, token, first }) {
      if (first !== undefined) {
        if (running.has(id) || (await isStored(id))) return undefined;
        running.set(id, token);
        return first.leaseMs;
      }
      const isLeased = (await inbox.readSteps?.({ id, token, attempt: 0 })) !== null;
      const { dueAt = null } = (await inbox.find(id)) ?? {};
      return isLeased ? Math.max(1, (dueAt ?? 0) - now()) : undefined;
    },

    async commit(lease) {
      const { id, token, first } = lease;
      if (first === undefined) {
        const isCompleted = await inbox.complete(lease);
        if (isCompleted) committed.set(id, token);
        return isCompleted;
      }
      running.delete(id);
      committed.set(id, token);
      const { json, origin } = first;
      const [result] = await inbox.ignore([JSON.parse(json)], { origin, json: [json] });
      return result === 'new';
    },

    rollBack({ id, token }) {
      if (running.get(id) === token) running.delete(id);
    },

    async fail(lease, options) {
      const { id, token, first } = lease;
      // As for a handler that ended its own transaction, which none does here.
      if (options.retryAfterMs === null && committed.get(id) === token) return true;
      if (first === undefined) return inbox.fail(lease, options);
      if (running.has(id) || (await isStored(id))) return false;
      const stored = await claim(JSON.parse(first.json), first);
      return stored.state === 'claimed' && inbox.fail(stored.lease, options);
    },

    async readSteps(lease) {
      const { id, token, first } = lease;
      if (first === undefined) return inbox.readSteps?.(lease) ?? null;
      if (await isStored(id)) return null;
      const { steps = [] } = unstored.get(id) ?? {};
      unstored.set(id, { token, steps });
      return steps;
    },

    async saveStep(lease, name, result) {
      const { id, token, attempt, first } = lease;
      if (first === undefined) return inbox.saveStep?.(lease, name, result) ?? false;
      const owned = unstored.get(id);
      if (owned?.token !== token || result === undefined || (await isStored(id))) return false;
      if (owned.steps.some((step) => step.name === name)) return false;
      owned.steps.push({ name, attempt, at: now(), result });
      return true;
    },
  };
}
