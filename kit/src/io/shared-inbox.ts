/**
 * A command that forwards events leases each event in an inbox of its own. In the inbox of the app, that lease would keep the
 * app from running the event: the app answers `ERR_EVENT_BUSY`, or 202 for a job that finds the event done.
 */
import type { Inbox, InboxOperations, Lease, UnknownEvent } from 'stablehooks';
import { type EndpointAnswer, isBusy, isDelivered, isQueued, outcomeOf } from './delivery.js';
import { type CommandError, usageError } from './errors.js';
import { type InboxFlags, type OpenInbox, openInbox } from './inbox.js';
import { findReceiverOrigin, isMarked, withMark } from './inbox-owner.js';

/** For `--help` of the commands that forward. */
export const OWN_INBOX = "not the app's own inbox";

const FIX =
  'An event that this command holds cannot run in the app. The app finds missed events by its own poller; here, pass an --inbox that only `catch-up` and `listen` use, such as --inbox catch-up.db.';

/** An inbox that only `catch-up` and `listen` use. */
export interface OwnInbox extends OpenInbox {
  /** Records that an app uses it as well. Once it is closed, it counts as the app's. */
  leaveToApp(): void;
}

/**
 * Opens the inbox of a command that forwards, and creates a missing file. The inbox must be unused, or a command that
 * forwards must have made the last poll with it.
 *
 * @throws {CommandError} as {@link openInbox}, and exit 2, without a change, for every other inbox: it belongs to an app.
 */
export async function openOwnInbox(flags: InboxFlags): Promise<OwnInbox> {
  const inbox = await openInbox(flags, { create: true });
  let isShared = false;
  async function close(): Promise<void> {
    try {
      // Removes the mark.
      if (isShared) await inbox.acquirePoll({ holder: crypto.randomUUID(), leaseMs: 0 });
    } catch {
      // The first failure is the one to report.
    } finally {
      await inbox.close();
    }
  }
  try {
    await refuseAppInbox(inbox, flags.inbox);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    ...withMark(inbox),
    close,
    leaveToApp() {
      isShared = true;
    },
  };
}

/** @throws {CommandError} exit 2 unless the inbox belongs to a command that forwards, or is unused. */
async function refuseAppInbox(inbox: OpenInbox, place: string): Promise<void> {
  const origin = await findReceiverOrigin(inbox);
  if (origin !== undefined) {
    throw usageError(
      `${place} is the inbox of an app: it has events that a receiver recorded (${origin}). ${FIX}`,
    );
  }
  if (await isMarked(inbox)) return;
  const isPolled = (await inbox.lastPoller()) !== null;
  if (!isPolled && (await inbox.count()).every(({ count }) => count === 0)) return;
  const what = isPolled ? 'the last poll with it was' : 'its events are';
  throw usageError(`${place} is the inbox of an app: ${what} not of \`catch-up\` or \`listen\`. ${FIX}`);
}

/** Finds out whether the endpoint uses the inbox that its events are forwarded from. */
export interface SharingCheck<Held> {
  /** The inbox to forward from. Events that the endpoint must run itself stay unchanged. */
  readonly inbox: Held;
  /** Aborts when the endpoint uses the inbox. */
  readonly shared: AbortSignal;
  /**
   * Whether the answer to an event that is leased here counts. `false` when the endpoint uses the inbox, or when that is
   * unknown; the endpoint has then not run the event.
   */
  counts(event: UnknownEvent, answer: EndpointAnswer): Promise<boolean>;
}

/** @param send - sends an event to the endpoint. */
export function checkSharing<Held extends Inbox & Pick<InboxOperations, 'find' | 'requeue'>>(
  inbox: Held,
  {
    send,
    leaseMs,
  }: { readonly send: (event: UnknownEvent) => Promise<EndpointAnswer>; readonly leaseMs: number },
): SharingCheck<Held> {
  const shared = new AbortController();
  /** The held leases by the ids of their events, because a check replaces the lease of its event. */
  const leases = new Map<string, Lease>();
  let checking: Promise<boolean> | undefined;

  /** Whether it is shown that the endpoint has another inbox. */
  async function isSeparate(event: UnknownEvent): Promise<boolean> {
    const lease = leases.get(event.id);
    if (lease === undefined) return false;
    const error = 'A check of whether the endpoint uses this same inbox.';
    if (!(await inbox.fail(lease, { retryAfterMs: null, error }))) return false;
    // Its receiver answers `dead` if it uses this inbox, or if its own handler has dead-lettered the event.
    const whileDead = await send(event);
    await inbox.requeue(event.id);
    if (outcomeOf(whileDead) === 'dead') {
      const afterwards = outcomeOf(await send(event));
      const isUntouched = (await inbox.find(event.id))?.state === 'received';
      if (afterwards !== 'dead' || !isUntouched) {
        shared.abort();
        return false;
      }
    }
    const claim = await inbox.claim(event, { leaseMs, origin: 'pull' });
    if (claim.state !== 'claimed') return false;
    leases.set(event.id, claim.lease);
    return outcomeOf(whileDead) !== undefined && (isDelivered(whileDead) || isBusy(whileDead));
  }

  /** The lease that is now held for the event of the given lease. */
  function take(lease: Lease): Lease {
    const held = leases.get(lease.id) ?? lease;
    leases.delete(lease.id);
    return held;
  }

  return {
    inbox: {
      ...inbox,
      async claim(event, options) {
        const claim = await inbox.claim(event, options);
        if (claim.state === 'claimed') leases.set(event.id, claim.lease);
        return claim;
      },
      complete: (lease) => inbox.complete(take(lease)),
      async fail(lease, options) {
        const failed = await inbox.fail(take(lease), options);
        // Due now and with its attempts reset, for the app.
        if (failed && shared.signal.aborted) await inbox.requeue(lease.id);
        return failed;
      },
    } satisfies Held as Held,
    shared: shared.signal,
    async counts(event, answer) {
      // No other process uses the memory inbox of this process.
      if (!inbox.durable || !(isBusy(answer) || (isQueued(answer) && outcomeOf(answer) !== undefined)))
        return true;
      checking ??= isSeparate(event);
      const known = checking;
      let separate = false;
      try {
        separate = await known;
      } finally {
        // An unknown result is checked again with the next event.
        if (!separate && !shared.signal.aborted && checking === known) checking = undefined;
      }
      return separate;
    },
  };
}

/** The error once {@link SharingCheck.shared} has aborted and forwarding has stopped. */
export function sharedInboxError(): CommandError {
  return usageError(`The endpoint uses this same inbox. ${FIX}`);
}
