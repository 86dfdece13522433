/**
 * The owner of an inbox. `catch-up` and `listen` mark the inbox that they poll with by the name of the holder of the poll
 * lease; the poller of an app replaces that name. Every other inbox counts as an app's.
 */
import { INBOX_STATES, type Inbox, type InboxOperations, type InboxRecord } from 'stablehooks';

/** The start of every holder's name of this tool. */
const MARK = 'stablehooks-kit ';

/** How many of the newest events of each state are read. */
const SAMPLE_SIZE = 100;

/**
 * The origin of one of the newest events of the inbox, if a receiver recorded it, which makes the inbox an app's.
 * `undefined` if a poller recorded all of them, or the inbox is empty.
 */
export async function findReceiverOrigin(
  inbox: Pick<InboxOperations, 'list'>,
): Promise<Exclude<InboxRecord['origin'], 'pull'> | undefined> {
  for (const state of INBOX_STATES) {
    const records = await inbox.list({ state, limit: SAMPLE_SIZE, order: 'newest' });
    for (const { origin } of records) if (origin !== 'pull') return origin;
  }
  return undefined;
}

/** Whether `catch-up` or `listen` was the last to poll with the inbox. */
export async function isMarked(inbox: Pick<InboxOperations, 'lastPoller'>): Promise<boolean> {
  return (await inbox.lastPoller())?.startsWith(MARK) === true;
}

/** Whether only `catch-up` and `listen` use the inbox, so no app runs its events. */
export async function isOwnInbox(inbox: Pick<InboxOperations, 'lastPoller' | 'list'>): Promise<boolean> {
  return (await isMarked(inbox)) && (await findReceiverOrigin(inbox)) === undefined;
}

/** The inbox, marked at each poll. */
export function withMark<Held extends Pollable>(inbox: Held): Held {
  return holdAs(inbox, async () => true);
}

/** The inbox with an unchanged mark, because acknowledging a gap acquires the poll lease as well. */
export function keepMark<Held extends Pollable & Pick<InboxOperations, 'lastPoller'>>(inbox: Held): Held {
  return holdAs(inbox, () => isMarked(inbox));
}

type Pollable = Pick<Inbox, 'acquirePoll' | 'savePoll'>;

function holdAs<Held extends Pollable>(inbox: Held, marks: () => Promise<boolean>): Held {
  let mark = '';
  return {
    ...inbox,
    async acquirePoll({ holder, leaseMs }) {
      mark = (await marks()) ? MARK : '';
      return inbox.acquirePoll({ holder: mark + holder, leaseMs });
    },
    savePoll: (state, { holder, leaseMs }) => inbox.savePoll(state, { holder: mark + holder, leaseMs }),
  } satisfies Held as Held;
}
