import { isPromise } from '../core/awaitable.js';
import { ConfigError, orUnavailable, PermanentError, StablehooksError } from '../core/errors.js';
import { EVENT_TYPES, type EventType, encodeEvent, isKnownEvent, type WebhookEvent } from '../core/events.js';
import { integer, readOptions, rule, string } from '../core/options.js';
import type { Inbox, InboxOperations, InboxRecord, Origin } from '../core/ports.js';
import { timeLimit } from '../core/runtime.js';
import { toLastError } from './attempt.js';
import { isHandlerFault, toHandlerFault } from './handler-call.js';
import { toIdempotencyKey } from './idempotency-key.js';
import type { CoreParts } from './parts.js';

const STATES = ['dead', 'failed', 'parked'] as const;

/** Which events to rehearse. */
export interface RehearseOptions {
  /** @default ['dead', 'failed', 'parked'] */
  readonly states?: readonly (typeof STATES)[number][] | undefined;
  /** @default all types that have a handler */
  readonly types?: readonly EventType[] | undefined;
  /** Only events whose last error contains this text are rehearsed. @default all events */
  readonly error?: string | undefined;
  /** The maximum number of events to rehearse per state and type, oldest first. It can be up to 10,000. @default 100 */
  readonly limit?: number | undefined;
}

/** The result of rehearsing one event, as plain data. */
export interface Rehearsal {
  readonly id: string;
  readonly type: string;
  readonly state: 'dead' | 'failed' | 'parked';
  /**
   * - `succeeds`: the handler returned.
   * - `fails`: the handler threw an error, or took longer than `handlerTimeoutMs`.
   * - `steps`: the handler called a step that has no stored result. A rehearsal doesn't run such a step, so the code after
   *   the step isn't tested.
   * - `later`: the handler threw `RetryLater`.
   */
  readonly verdict: 'succeeds' | 'fails' | 'steps' | 'later';
  /** The name of the step that did not run; `null` unless the verdict is `steps`. */
  readonly step: string | null;
  /** The code and the message of the error; `null` if there was no error. */
  readonly error: string | null;
}

type Found = Pick<Rehearsal, 'verdict' | 'step' | 'error'>;

type RehearsedInbox = Inbox<unknown> & InboxOperations & Required<Pick<Inbox<unknown>, 'rehearse'>>;

const ENDED = new PermanentError('The rehearsal has ended.');

export async function rehearse(
  parts: CoreParts,
  options: RehearseOptions = {},
): Promise<readonly Rehearsal[]> {
  const { settings, store } = parts;
  const inbox = settings.inbox as RehearsedInbox;
  if (inbox.rehearse === undefined || inbox.list === undefined) throw new ConfigError(NO_TRANSACTIONS);
  const { states, types, error, limit } = toRehearseSettings(options);
  const results: Rehearsal[] = [];
  for (const type of types) {
    if (settings.handlers[type] === undefined) continue;
    for (const state of states) {
      const filter = { state, type, limit, ...(error !== undefined && { error }) };
      for (const record of await store.ask(() => inbox.list(filter))) {
        if (record.event === null || !isKnownEvent(record.event)) continue;
        const found = await rehearseOne(parts, inbox, record, record.event);
        results.push({ id: record.id, type, state, ...found });
      }
    }
  }
  return results;
}

function toRehearseSettings(options: RehearseOptions) {
  const listOf = <Value extends string>(values: readonly Value[]) =>
    rule(
      `an array of ${values.join(', ')}`,
      (given) => Array.isArray(given) && given.length > 0 && given.every((each) => values.includes(each)),
      values,
    );
  return readOptions('rehearse', options, {
    states: listOf(STATES),
    types: listOf(EVENT_TYPES),
    error: string(),
    limit: integer({ default: 100, max: 10_000 }),
  });
}

async function rehearseOne(
  { settings, callHandler }: CoreParts,
  inbox: RehearsedInbox,
  { id, origin }: InboxRecord,
  event: WebhookEvent,
): Promise<Found> {
  const { leaseMs, handlerTimeoutMs, runtime } = settings;
  let found: Found | undefined;
  const fail = (thrown: unknown) => {
    if (found?.verdict === 'steps') return;
    const fault = toHandlerFault(event, thrown);
    const verdict = fault.code === 'ERR_HANDLER_LATER' ? 'later' : 'fails';
    found = { verdict, step: null, error: toLastError(fault) };
  };
  // Read before the transaction begins, because the transaction may take the only connection.
  const stored = await inbox.steps(id);
  const controller = new AbortController();
  const runStep = async (name: string) => {
    const known = stored.find((each) => each.name === name && each.result !== null);
    if (known !== undefined) return known.result ? JSON.parse(known.result) : undefined;
    found ??= { verdict: 'steps', step: name, error: null };
    throw new StablehooksError('ERR_HANDLER_FAILED', `A rehearsal does not run the step ${name}.`);
  };
  const step = (name: string) => {
    const ended = runStep(name);
    // If the handler does not await the promise, a rejection must not crash the process.
    ended.catch(() => undefined);
    return ended;
  };
  const succeed = () => {
    found ??= { verdict: 'succeeds', step: null, error: null };
  };
  const onTimeUp = () => {
    controller.abort();
    throw new StablehooksError(
      'ERR_HANDLER_TIMEOUT',
      `The handler is still running after ${handlerTimeoutMs} ms.`,
    );
  };
  const effect = (tx: unknown): Promise<never> => {
    const context = {
      ...{ tx, step, attempt: 1, origin: origin as Origin, json: encodeEvent(event) },
      ...{ isRehearsal: true, signal: controller.signal },
      idempotencyKey: (...name: [string?]) => toIdempotencyKey(id, ...name),
    };
    let running: unknown;
    try {
      running = callHandler(event, { id, token: '', attempt: 1 }, context);
      if (!isPromise(running)) succeed();
    } catch (thrown) {
      fail(thrown);
    }
    if (!isPromise(running)) throw ENDED;
    if (inbox.synchronous) return running as Promise<never>;
    return timeLimit(Promise.resolve(running), handlerTimeoutMs, onTimeUp, runtime)
      .then(succeed, fail)
      .then(() => {
        throw ENDED;
      });
  };
  try {
    await orUnavailable('ERR_INBOX_FAILED', () => inbox.rehearse(effect, { leaseMs }));
  } catch (error) {
    if (error !== ENDED && !isHandlerFault(error)) throw error;
    // Either the handler ended its transaction, or it returned a promise in a synchronous transaction.
    if (error !== ENDED) fail(error);
  }
  // The database did not begin the transaction, so the handler did not run.
  if (found === undefined)
    throw new StablehooksError('ERR_INBOX_FAILED', `The rehearsal of ${id} could not start. Try again.`);
  return found;
}

const NO_TRANSACTIONS =
  'rehearse: the inbox has no transactions to roll back. Pass `transactional: true` to sqliteInbox, postgresInbox or mysqlInbox.';
