import { ConfigError, type UnknownEvent } from 'stablehooks';
import type { PollReport } from 'stablehooks/catch-up';
import * as z from 'zod/mini';
import { connectionFailure } from '../explain/connection.js';
import { hasPassword } from '../io/place.js';
import { nonEmptyString, readOptions } from '../sandbox/validation.js';
import type { StreamEntry } from './api.js';
import type { InspectedInbox, InspectorSource } from './source.js';

/** Options of `fromInbox`. */
export interface InboxSourceOptions {
  /** What the page calls the inbox, such as `payments`. It must not contain a password. */
  readonly name: string;
  /**
   * How long after one look at the inbox the next one follows, in ms, while a page is open. After a look that takes
   * long, it is longer. @default 2000
   */
  readonly pollIntervalMs?: number | undefined;
  /**
   * Runs an event now, and resolves to its outcome, such as
   * `async (event) => (await receiver.accept(event, 'redrive')).kind`. The action `run` needs it. @default none
   */
  readonly run?: ((event: UnknownEvent) => Promise<string>) | undefined;
  /** What the last poll reported, if this process polls. @default none */
  readonly lastReport?: (() => PollReport | undefined) | undefined;
}

/** What the inspector calls of an inbox. */
export const INBOX_METHODS = [
  ...(['find', 'list', 'count', 'pollState', 'requeue', 'prune'] as const),
  ...(['acquirePoll', 'savePoll'] as const),
] satisfies readonly (keyof InspectedInbox)[];

const isFunction = (value: unknown) => typeof value === 'function';
const shape = {
  name: nonEmptyString.check(z.refine((name) => !hasPassword(name), 'must not contain a password')),
  pollIntervalMs: z._default(
    z
      .int('must be an integer, in milliseconds')
      .check(z.minimum(100, 'must be at least 100'), z.maximum(3_600_000, 'must be at most 3600000')),
    2_000,
  ),
  run: z.optional(z.custom<NonNullable<InboxSourceOptions['run']>>(isFunction, 'must be a function')),
  lastReport: z.optional(
    z.custom<NonNullable<InboxSourceOptions['lastReport']>>(isFunction, 'must be a function'),
  ),
} satisfies Readonly<Record<keyof InboxSourceOptions, z.ZodMiniType>>;

/** After this long without an answer the inbox counts as lost. It is not asked again before it answers or fails. */
const TIME_LIMIT_MS = 10_000;
/** The share of the time in which the inbox is asked, at most: an SQLite inbox blocks the app while it answers. */
const MAX_LOAD = 0.02;
/** The longest pause for that reason: an inbox that answers again must be noticed. */
const MAX_PAUSE_MS = 10_000;

/**
 * Shows an inbox: its events, and what is proven. It is asked only while a page is open.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function fromInbox(inbox: InspectedInbox, options: InboxSourceOptions): InspectorSource {
  const methods: Readonly<Record<string, unknown>> = Object(inbox);
  if (!INBOX_METHODS.every((name) => typeof methods[name] === 'function')) {
    throw new ConfigError('fromInbox: the inbox must be one, such as sqliteInbox() or memoryInbox().');
  }
  const { name, pollIntervalMs, run, lastReport } = readOptions('fromInbox', options, shape);
  return {
    name,
    inbox: { operations: inbox, run, lastReport },
    subscribe: (listener, isWatched) => watch(inbox, { listener, isWatched, pollIntervalMs }),
  };
}

interface Watch {
  readonly listener: (entry: StreamEntry) => void;
  readonly isWatched: () => boolean;
  readonly pollIntervalMs: number;
}

/** Looks at an inbox again and again, and says what has changed. Never looks twice at the same time. */
function watch(inbox: InspectedInbox, { listener, isWatched, pollIntervalMs }: Watch): () => void {
  const seen = new Map<'inbox' | 'coverage', string>();
  let isClosed = false;
  let isLost = false;
  let timer: NodeJS.Timeout;

  function tell(entry: StreamEntry): void {
    if (!isClosed) listener(entry);
  }

  function compare(view: 'inbox' | 'coverage', found: unknown): void {
    const text = JSON.stringify(found);
    const before = seen.get(view);
    seen.set(view, text);
    if (before !== undefined && before !== text) tell({ kind: 'changed', view });
  }

  function lose(why: string): void {
    if (isLost) return;
    isLost = true;
    tell({ kind: 'lost', since: new Date().toISOString(), why });
  }

  async function look(): Promise<void> {
    const limit = setTimeout(lose, TIME_LIMIT_MS, 'The inbox does not answer.').unref();
    try {
      const counts = await inbox.count();
      const state = await inbox.pollState();
      if (isLost) tell({ kind: 'recovered' });
      isLost = false;
      compare('inbox', counts);
      compare('coverage', state);
    } catch (error) {
      lose(describeLoss(error));
    } finally {
      clearTimeout(limit);
    }
  }

  async function lookOn(): Promise<void> {
    const begun = performance.now();
    if (isWatched()) await look();
    const pauseMs = Math.min((performance.now() - begun) / MAX_LOAD, MAX_PAUSE_MS);
    if (!isClosed) timer = setTimeout(lookOn, Math.max(pollIntervalMs, pauseMs)).unref();
  }

  timer = setTimeout(lookOn, 0).unref();
  return () => {
    isClosed = true;
    clearTimeout(timer);
  };
}

/** Why an inbox cannot be read. Messages of drivers can quote a connection string, so only their codes are used. */
export function describeLoss(thrown: unknown): string {
  const codes: string[] = [];
  for (let error = thrown; error instanceof Error && codes.length < 8; error = error.cause) {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
    if (/^\w{1,40}$/.test(code)) codes.unshift(code);
  }
  const failure = codes.map(connectionFailure).find((found) => found !== undefined);
  const [code] = codes;
  if (failure !== undefined) return `The inbox cannot be reached: ${failure.what} (${code}).`;
  return `The inbox cannot be read${code === undefined ? '' : ` (${code})`}.`;
}
