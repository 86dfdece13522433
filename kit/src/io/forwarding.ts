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
  /**
   * The types to forward. Events of other types are recorded but not run. They wait in the inbox until a forwarder for
   * their type runs, and count neither as delivered nor as failed. @default all known types
   */
  readonly types?: readonly EventType[] | undefined;
  readonly poll: Omit<PollerOptions, 'client' | 'receiver'>;
  /** Whether to stop sending once the first response shows that the URL or the secret is wrong. */
  readonly stopsAtWrongTarget?: true;
  /** Called after each attempt, once its result is recorded. */
  readonly onAttempt: (attempt: ForwardingAttempt) => void;
}

export interface ForwardingAttempt extends DeliveryRow {
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The time until the next attempt, in ms; `null` if there will be none. */
  readonly nextInMs: number | null;
  readonly sent: SentDelivery;
}

const NOT_SENT = 'Not sent: the first response shows that the URL or the secret is wrong.';

/** Silent, because the command itself prints each attempt and each problem of a poll. */
const logger = { warn: () => undefined, error: () => undefined };

/**
 * Creates a receiver whose handlers send each event to the endpoint, and a poller that feeds the receiver. The event
 * fails in the inbox if the response does not show that the endpoint handled or queued the event, for example because
 * the endpoint ignores the type. A failed event is sent again when it is due.
 */
export async function createForwarder(url: string, options: ForwardingOptions) {
  const { settings, client, timeoutMs, types = EVENT_TYPES, onAttempt } = options;
  const service = watchErrors(client.events);
  const inbox = watchErrors(options.inbox);
  const sender = await createSender(url, settings, timeoutMs);
  // The time limit for the endpoint must end an attempt before the handler's time limit does.
  const handlerTimeoutMs = timeoutMs + 5_000;
  // The lease is short, because leased events wait this long after a crash.
  const leaseMs = handlerTimeoutMs + 5_000;
  /** The responses to attempts that the inbox has not recorded yet, by event id. */
  const answers = new Map<string, Pick<ForwardingAttempt, 'event' | 'answer' | 'sent'>>();

  /** The first delivery. If `stopsAtWrongTarget` is set, all other deliveries wait for its response. */
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
    // The excluded types also have a handler, because an event without a handler would be marked as done.
    handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, forward])),
    handlerTimeoutMs,
    leaseMs,
    // This receiver never dead-letters an event. Only the endpoint does.
    maxAttempts: 2 ** 31 - 1,
    logger,
  });
  const poller = createPoller({ ...options.poll, logger, client: { events: service.target }, receiver });

  /** If a poll cannot reach the service, that is an error of the command, not a finding. */
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
    /**
     * Polls the list once and forwards new events. Never rejects. The errors in the result say why the list or the
     * report is incomplete.
     */
    async poll(signal: AbortSignal) {
      service.forget();
      inbox.forget();
      const report = await poller.pollOnce({ signal });
      const serviceError = signal.aborted ? undefined : toServiceError(report);
      return { report, serviceError, inboxError: inbox.lastError() };
    },
  };
}

/** Returns the inbox, with a callback after each attempt. `nextInMs` is `null` if the event will not be tried again. */
function watchAttempts(
  // There is no transaction, because it would stay open until the endpoint responds, and no handler here writes in it.
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

/**
 * Remembers the last error that a method threw, because a report only summarizes errors and the exit code depends on
 * the cause.
 */
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
