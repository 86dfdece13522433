import {
  createReceiver,
  EVENT_TYPES,
  type EventContext,
  type EventType,
  type Inbox,
  type Lease,
  StablehooksError,
  type WebhookEvent,
} from 'stablehooks';
import { createPoller, type PollerOptions, type PollReport } from 'stablehooks/catch-up';
import type { Client } from 'stablehooks/client';
import { isWrongTarget } from './answer.js';
import type { DeliveryRow } from './delivery-rows.js';
import { CommandError, toFailure, unreachableError, withErrors } from './errors.js';
import type { OpenInbox } from './inbox.js';
import { selectTypes } from './selected-types.js';
import { createSender, type SentDelivery } from './sender.js';
import type { Settings } from './settings.js';
import { hasTakenEffect, toLastError } from './without-handler.js';

interface ForwardingOptions {
  readonly settings: Settings;
  readonly client: Client;
  readonly inbox: OpenInbox;
  readonly timeoutMs: number;
  /** Events of other types stay in the inbox for another forwarder. @default all known types */
  readonly types?: readonly EventType[] | undefined;
  readonly poll: Omit<PollerOptions, 'client' | 'receiver'>;
  /** Stops sending if the first response shows that the URL or the secret is wrong. */
  readonly stopsAtWrongTarget?: true;
  /** Called once the result of the attempt is recorded. */
  readonly onAttempt: (attempt: ForwardingAttempt) => void;
}

export interface ForwardingAttempt extends DeliveryRow {
  /** The number of the attempt, starting at 1. */
  readonly attempt: number;
  /** `null` if there will be no further attempt. */
  readonly nextInMs: number | null;
  readonly sent: SentDelivery;
}

const NOT_SENT = 'Not sent: the first response shows that the URL or the secret is wrong.';

/** Silent, because the command itself prints each attempt and each problem of a poll. */
const logger = { warn: () => undefined, error: () => undefined };

/** An event fails unless the response shows that the endpoint handled or queued it. A failed event is resent when due. */
export async function createForwarder(url: string, options: ForwardingOptions) {
  const { settings, client, timeoutMs, types = EVENT_TYPES, onAttempt } = options;
  const service = watchErrors(client.events);
  const inbox = watchErrors(options.inbox);
  const sender = await createSender(url, settings, timeoutMs);
  // The endpoint's time limit must end an attempt before the handler's time limit does.
  const handlerTimeoutMs = timeoutMs + 5_000;
  // After a crash, leased events wait until the lease ends, so the lease is short.
  const leaseMs = handlerTimeoutMs + 5_000;
  /** Keyed by event id, until the inbox has recorded the attempt. */
  const answers = new Map<string, Pick<ForwardingAttempt, 'event' | 'answer' | 'sent'>>();

  /** With `stopsAtWrongTarget`, all later deliveries wait for the response to this one. */
  let first: Promise<SentDelivery> | undefined;
  const send = async (json: string): Promise<SentDelivery> => {
    const isRefused =
      options.stopsAtWrongTarget && first !== undefined && isWrongTarget((await first).answer);
    if (isRefused) throw new StablehooksError('ERR_HANDLER_FAILED', NOT_SENT);
    const sent = sender.sendKept(Buffer.from(json));
    first ??= sent;
    return sent;
  };

  const forward = async (event: WebhookEvent, { json }: EventContext) => {
    const sent = await send(json);
    const { answer } = sent;
    answers.set(event.id, { event, answer, sent });
    const lastError = (await inbox.target.find(event.id))?.lastError;
    if (!hasTakenEffect(answer, lastError)) {
      throw new StablehooksError('ERR_HANDLER_FAILED', `The endpoint: ${toLastError(answer, lastError)}.`);
    }
  };
  const watched = watchAttempts(inbox.target, (lease, nextInMs) => {
    const row = answers.get(lease.id);
    answers.delete(lease.id);
    if (row !== undefined) onAttempt({ ...row, attempt: lease.attempt, nextInMs });
  });
  const receiver = createReceiver({
    secret: await settings.secret(),
    inbox: selectTypes(watched, types),
    // The excluded types need a handler too, because events without a handler would be marked as done.
    handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, forward])),
    handlerTimeoutMs,
    leaseMs,
    // Only the endpoint dead-letters events.
    maxAttempts: 2 ** 31 - 1,
    logger,
  });
  const poller = createPoller({ ...options.poll, logger, client: { events: service.target }, receiver });

  /** Failing to reach the service is an error of the command, not a finding. */
  function toServiceError({ proven, fetched, problems }: PollReport): CommandError | undefined {
    if (proven || fetched > 0) return undefined;
    const busy = problems.some(({ code }) => code === 'ERR_POLL_BUSY');
    if (busy)
      return unreachableError(
        'Another process is polling with this inbox. Stop it, or run this command again later.',
      );
    const error = service.lastError();
    if (error === undefined) return undefined;
    const { exitCode, message } = toFailure(error);
    return new CommandError(exitCode, `The service at ${settings.baseUrl()}: ${message}`, { cause: error });
  }

  return {
    /** Never rejects. The errors in the result explain why the list or the report is incomplete. */
    async poll(signal: AbortSignal) {
      service.forget();
      inbox.forget();
      const report = await poller.pollOnce({ signal });
      const serviceError = signal.aborted ? undefined : toServiceError(report);
      return { report, serviceError, inboxError: inbox.lastError() };
    },
  };
}

/** `nextInMs` is `null` if the event will not be retried. */
function watchAttempts(
  // A transaction would stay open until the endpoint responds, and no handler here writes in it.
  { transaction: _, ...inbox }: Inbox,
  onEnd: (lease: Lease, nextInMs: number | null) => void,
): Inbox {
  return {
    ...inbox,
    async complete(lease) {
      try {
        return await inbox.complete(lease);
      } finally {
        onEnd(lease, null);
      }
    },
    async fail(lease, options) {
      try {
        return await inbox.fail(lease, options);
      } finally {
        onEnd(lease, options.retryAfterMs);
      }
    },
  };
}

/** A report only summarizes errors, but the exit code depends on the cause. */
function watchErrors<Target extends object>(object: Target) {
  let last: unknown;
  const target = withErrors(object, (error) => {
    last = error;
    return error;
  });
  return {
    target,
    lastError: () => last,
    forget() {
      last = undefined;
    },
  };
}
