import { createdAtMs, createReceiver, EVENT_TYPES, type EventType, type WebhookEvent } from 'stablehooks';
import { createPoller, type PollerOptions, type PollReport } from 'stablehooks/catch-up';
import type { Client } from 'stablehooks/client';
import type { Inbox } from 'stablehooks/conformance';
import { createSender, type DeliveryRow, describeAnswer, isDelivered } from './delivery.js';
import { CommandError } from './errors.js';
import { EXIT } from './output.js';
import type { Settings } from './settings.js';

/** How events are forwarded. */
interface ForwardingOptions {
  readonly settings: Settings;
  readonly client: Client;
  readonly inbox: Inbox;
  readonly timeoutMs: number;
  /** The types to forward; others are recorded only. @default all known types */
  readonly types?: readonly EventType[] | undefined;
  /** Events created before this time (ms since 1970) are recorded only. @default 0 */
  readonly startMs?: number | undefined;
  readonly poll: Omit<PollerOptions, 'client' | 'receiver'>;
  /** After how many failed attempts an event is dead. @default the receiver's */
  readonly maxAttempts?: number | undefined;
  /** Called after each attempt. */
  readonly onAttempt: (row: DeliveryRow) => void;
}

/** Polls the list of the service and forwards what is new. */
export interface Forwarder {
  pollOnce(signal: AbortSignal): Promise<PollReport>;
  /**
   * A poll that could not ask the service or record an event is an error of the command and not a finding.
   *
   * @throws whatever the service or the inbox rejected with.
   */
  assertPolled(report: PollReport): void;
  /** What the inbox last rejected with; `undefined` while it works. */
  inboxError(): unknown;
}

/** Each attempt and each problem of a poll is printed as a line of the command. */
const logger = { warn: () => undefined, error: () => undefined };

/**
 * Makes a forwarder: a receiver whose handlers send each event to the endpoint, signed, and a poller in front of
 * it. An event that is not answered 2xx fails in the inbox, and is sent again when it is due.
 */
export async function createForwarder(url: string, options: ForwardingOptions): Promise<Forwarder> {
  const { settings, client, timeoutMs, types = EVENT_TYPES, startMs = 0, onAttempt } = options;
  const service = watchErrors(client.events);
  const inbox = watchErrors(options.inbox);
  const sender = await createSender(url, settings, timeoutMs);

  const forward = async (event: WebhookEvent) => {
    if (createdAtMs(event) < startMs) return;
    const answer = await sender.send(event);
    onAttempt({ event, answer });
    if (!isDelivered(answer)) throw new Error(`${url} answered ${describeAnswer(answer)}`);
  };
  const receiver = createReceiver({
    secret: await settings.secret(),
    inbox: inbox.target,
    handlers: Object.fromEntries(types.map((type) => [type, forward])),
    // The endpoint's time limit must end an attempt before the handler's limit does.
    handlerTimeoutMs: timeoutMs + 5_000,
    // Short, because after a crash the events that were held wait this long.
    leaseMs: timeoutMs + 10_000,
    maxAttempts: options.maxAttempts,
    logger,
  });
  const poller = createPoller({ ...options.poll, logger, client: { events: service.target }, receiver });

  return {
    pollOnce: (signal) => poller.pollOnce({ signal }),
    assertPolled(report) {
      if (report.proven || report.fetched > 0) return;
      const error = inbox.lastError() ?? service.lastError();
      if (error !== undefined) throw error;
      const busy = report.problems.find(({ code }) => code === 'ERR_POLL_BUSY');
      if (busy !== undefined) throw new CommandError(EXIT.unreachable, busy.message);
    },
    inboxError: inbox.lastError,
  };
}

/**
 * Remembers the last error that a method of the object rejected with. Reports hold only a summary of it, and the
 * exit code depends on its cause.
 */
function watchErrors<Target extends object>(object: Target) {
  let last: unknown;
  const remember = (error: unknown) => {
    last = error;
    throw error;
  };
  const target = new Proxy(object, {
    get(from, name) {
      const member: unknown = Reflect.get(from, name);
      if (typeof member !== 'function') return member;
      return (...values: readonly unknown[]) => {
        const result: unknown = Reflect.apply(member, from, values);
        return result instanceof Promise ? result.catch(remember) : result;
      };
    },
  });
  return { target, lastError: () => last };
}
