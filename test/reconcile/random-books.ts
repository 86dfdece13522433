/** Three books with planted errors, from a seed, and what a comparison has to find. */
import { EVENT_TYPES, memoryInbox, type UnknownEvent } from 'stablehooks';
import { type PollerClient, writePollState } from 'stablehooks/catch-up';
import type { FindingKind, LedgerEntry } from 'stablehooks/reconcile';
import { createRandom } from '../catch-up/simulated-list.js';

export const NOW = Date.parse('2026-03-01T12:00:00Z');
export const LAG_MS = 300_000;
const HOUR = 3_600_000;
export const SINCE = new Date(NOW - 10 * HOUR);
/** The end of the span unless one is given. */
const UNTIL = NOW - LAG_MS;

export interface Entry extends LedgerEntry {
  readonly amount: string;
}

/** How many events a whole list has at most, beside the one from before the span. */
const MAX_WHOLE = 48;

const FATES = [
  'good',
  'good',
  'good',
  'good',
  'unseen',
  'missing',
  'doubled',
  'mismatched',
  'conflicting',
  'received',
  'leased',
  'failed',
  'dead',
  'unlisted',
  'parked',
  'old',
  'recent',
] as const;

export async function makeBooks(seed: number) {
  const random = createRandom(seed);
  const pick = <Item>(items: readonly [Item, ...Item[]]): Item =>
    items[Math.floor(random() * items.length)] ?? items[0];
  const isCut = random() < 0.3;
  const inbox = memoryInbox({ runtime: { now: () => NOW } });
  const listed: UnknownEvent[] = [];
  const ledger: Entry[] = [];
  const planted = new Set<string>();
  const unseen: string[] = [];
  const unseenWithEntry = new Set<string>();

  const plant = (kind: FindingKind, id: string) => planted.add(`${kind} ${id}`);
  const enter = (event: UnknownEvent, amount = write(String(event.payload['amount']))) =>
    ledger.push({ id: event.id, amount });
  /** The same amount, written in another way. */
  const write = (amount: string) => pick([amount, `${amount}0`, `+${amount}`, `0${amount}`]);
  const finish = async (event: UnknownEvent) => {
    const claim = await inbox.claim(event, { leaseMs: 1_000, origin: 'push' });
    if (claim.state === 'claimed') await inbox.complete(claim.lease);
  };
  const fail = async (event: UnknownEvent, retryAfterMs: number | null) => {
    const claim = await inbox.claim(event, { leaseMs: 1_000, origin: 'push' });
    if (claim.state === 'claimed') await inbox.fail(claim.lease, { retryAfterMs, error: 'down' });
  };

  const count = isCut ? 40 + Math.floor(random() * 120) : Math.floor(random() * (MAX_WHOLE + 1));
  for (let index = 0; index < count; index += 1) {
    const fate = pick(FATES);
    const at =
      fate === 'old'
        ? SINCE.getTime() - 1 - Math.floor(random() * HOUR)
        : fate === 'recent'
          ? UNTIL + Math.floor(random() * LAG_MS)
          : SINCE.getTime() + Math.floor(random() * (UNTIL - SINCE.getTime()));
    const id = `evt_${seed}_${index}`;
    const event: UnknownEvent = {
      id,
      type: fate === 'parked' ? 'wallet.frozen' : random() < 0.6 ? 'transfer.settled' : pick(EVENT_TYPES),
      created_at: new Date(at).toISOString(),
      payload: { amount: `${Math.floor(random() * 1_000)}.${1 + Math.floor(random() * 9)}` },
    };
    if (fate !== 'unlisted') listed.push(event);
    switch (fate) {
      case 'good':
        await finish(event);
        enter(event);
        break;
      case 'unseen':
        plant('unseen', id);
        unseen.push(id);
        if (random() < 0.3) {
          enter(event);
          unseenWithEntry.add(id);
        }
        break;
      case 'missing':
        await finish(event);
        plant('missing', id);
        break;
      case 'doubled':
        await finish(event);
        enter(event);
        enter(event);
        plant('doubled', id);
        if (random() < 0.3) {
          enter(event, '1000000');
          plant('mismatched', id);
        }
        break;
      case 'mismatched':
        await finish(event);
        enter(event, `${event.payload['amount']}1`);
        plant('mismatched', id);
        break;
      case 'conflicting': {
        // The inbox has another event than the list, or the list has two.
        const other = pick([{ type: `${event.type}.2` }, { payload: { amount: '0.01' } }]);
        // Fewer than 50 events are a whole list, because no service cuts that.
        const isListedTwice = random() < 0.5 && (isCut || listed.length + count - index <= MAX_WHOLE);
        if (isListedTwice) listed.push({ ...event, ...other });
        await finish(isListedTwice ? event : { ...event, payload: { ...event.payload, to: 'other' } });
        enter(event);
        plant('conflicting', id);
        break;
      }
      case 'received':
      case 'leased':
      case 'failed':
        if (fate === 'received') await inbox.record([event], { dueInMs: 0, origin: 'pull' });
        if (fate === 'leased') await inbox.claim(event, { leaseMs: 1_000, origin: 'push' });
        if (fate === 'failed') await fail(event, 1_000);
        if (random() < 0.3) enter(event);
        plant('waiting', id);
        break;
      case 'dead':
        await fail(event, null);
        if (random() < 0.3) enter(event);
        plant('dead', id);
        break;
      case 'unlisted':
        await finish(event);
        enter(event);
        plant('unlisted', id);
        break;
      case 'parked':
        await inbox.record([event], { dueInMs: null, origin: 'push' });
        break;
      case 'old':
      case 'recent':
        // Events outside the span are not judged.
        if (random() < 0.7) await finish(event);
        if (random() < 0.7) ledger.push({ id, amount: '0', createdAt: event.created_at });
        break;
    }
  }
  for (let index = 0; random() < 0.5; index += 1) {
    const id = `extra_${seed}_${index}`;
    const isOutside = random() < 0.3;
    const createdAt = new Date(isOutside ? SINCE.getTime() - 1 : SINCE.getTime()).toISOString();
    ledger.push({ id, amount: '1', ...((isOutside || random() < 0.5) && { createdAt }) });
    if (!isOutside) plant('extra', id);
  }

  // An event from before the span: the list goes back further than that.
  const before = new Date(SINCE.getTime() - 10 * HOUR).toISOString();
  listed.push({ id: `before_${seed}`, type: 'redeem.failed', created_at: before, payload: {} });
  const newestFirst = listed.toSorted((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at));
  const cap = isCut ? 50 + Math.floor(random() * 30) : Number.POSITIVE_INFINITY;
  const client: PollerClient = {
    events: {
      async listWithProblems({ type, limit }) {
        const events = newestFirst
          .filter((event) => type === undefined || event.type === type)
          .slice(0, Math.min(limit, cap));
        return { events, problems: [], size: events.length, servedAt: NOW };
      },
    },
  };
  // Half of the inboxes have been polled: then nothing is unseen before the watermark, except in a gap.
  if (random() < 0.5) {
    const until = Object.fromEntries(EVENT_TYPES.map((type) => [type, UNTIL]));
    const gap = {
      from: SINCE.getTime() - 1,
      until,
      reason: 'not-reached',
      openedAt: NOW,
      acknowledged: null,
    } as const;
    await writePollState(inbox, {
      since: SINCE.getTime() - HOUR,
      watermark: UNTIL,
      gaps: unseen.length > 0 ? [gap] : [],
      limit: 50,
      oldest: null,
    });
  }
  const shuffled = ledger
    .map((entry) => ({ entry, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ entry }) => entry);
  return { client, inbox, ledger: shuffled, planted, isCut, unseenWithEntry };
}
