import { ConfigError, type InboxCount, type UnknownEvent } from 'stablehooks';
import { POLL_NOTE } from 'stablehooks/catch-up';
import * as z from 'zod/mini';
import { connectionFailure } from '../explain/connection.js';
import { inTime } from '../in-time.js';
import { hasPassword } from '../io/place.js';
import { nonEmptyString, readOptions } from '../sandbox/validation.js';
import type { StreamEntry } from './api.js';
import type { InspectedInbox, InspectorSource, LastReport } from './source.js';

/** Options of `fromInbox`. */
export interface InboxSourceOptions {
  /**
   * The name that the page shows for the inbox, such as `payments`. It must not contain a password or a URL that cannot
   * be parsed.
   */
  readonly name: string;
  /**
   * How long to wait between two reads of the inbox while a page is open, in ms. After a slow read, the wait is longer.
   * @default 2000
   */
  readonly pollIntervalMs?: number | undefined;
  /**
   * Runs an event now and resolves to the outcome. The action `run` requires this function. For example: `async (event)
   * => (await receiver.accept(event, 'redrive')).kind`.
   * @default none
   */
  readonly run?: ((event: UnknownEvent) => Promise<string>) | undefined;
  /**
   * The `--inbox` value, such as `env:ORDERS_DATABASE_URL`, that the page uses for this inbox in commands to copy. The
   * value must not contain a password.
   * @default 'env:DATABASE_URL'
   */
  readonly flag?: string | undefined;
  /** Returns the poller's last report and the time of that report, if this process polls. @default none */
  readonly lastReport?: (() => LastReport | undefined) | undefined;
}

export const INBOX_METHODS = [
  ...(['find', 'list', 'count', 'requeue', 'discard', 'steps'] as const),
  ...(['claim', 'fail', 'readNote', 'writeNote', 'leaseNote'] as const),
] satisfies readonly (keyof InspectedInbox)[];

const isFunction = (value: unknown) => typeof value === 'function';
const shape = {
  name: nonEmptyString.check(
    z.refine((name) => !hasPassword(name), 'must not contain a password or a URL that cannot be parsed'),
  ),
  flag: z.optional(
    nonEmptyString.check(z.refine((flag) => !hasPassword(flag), 'must not contain a password')),
  ),
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

/** After this long without a response, the inbox counts as lost and is read again. */
const TIME_LIMIT_MS = 10_000;
/** The maximum share of time spent on reading, because reading an SQLite inbox blocks the app. */
const MAX_LOAD = 0.02;
/** The page must notice soon enough when the inbox responds again. */
const MAX_PAUSE_MS = 10_000;

/**
 * Creates a source that shows the events and the coverage of an inbox. The inbox is read only while a page is open.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` if an option is invalid. The message names the option.
 */
export function fromInbox(inbox: InspectedInbox, options: InboxSourceOptions): InspectorSource {
  const methods: Readonly<Record<string, unknown>> = Object(inbox);
  if (!INBOX_METHODS.every((name) => typeof methods[name] === 'function')) {
    throw new ConfigError(
      'fromInbox: the first argument must be an inbox, such as sqliteInbox() or memoryInbox().',
    );
  }
  const { name, pollIntervalMs, run, lastReport, flag } = readOptions('fromInbox', options, shape);
  /** Kept while a page is open, because counting can be slow and every page needs the counts. */
  let counted: readonly InboxCount[] | undefined;
  const changing =
    <Values extends readonly unknown[], Answer>(work: (...values: Values) => Promise<Answer>) =>
    async (...values: Values) => {
      try {
        return await work(...values);
      } finally {
        counted = undefined;
      }
    };
  const operations: InspectedInbox = {
    find: (id) => answered(inbox.find(id)),
    list: (query) => answered(inbox.list(query)),
    count: async (filter) =>
      filter === undefined ? (counted ?? answered(inbox.count())) : answered(inbox.count(filter)),
    readNote: (note) => answered(inbox.readNote(note)),
    steps: (id) => answered(inbox.steps(id)),
    requeue: changing((which) => inbox.requeue(which)),
    discard: changing((which) => inbox.discard(which)),
    claim: (event, given) => inbox.claim(event, given),
    fail: (lease, given) => inbox.fail(lease, given),
    writeNote: (...note) => inbox.writeNote(...note),
    leaseNote: (note, given) => inbox.leaseNote(note, given),
  };
  return {
    name,
    inbox: { operations, run: run && changing(run), lastReport, flag },
    subscribe: (listener, isWatched) =>
      watch({
        listener,
        isWatched,
        pollIntervalMs,
        async look() {
          counted = undefined;
          const counts = await operations.count();
          const polled = [await operations.readNote(POLL_NOTE), lastReport?.()?.at];
          counted = counts;
          return { events: counts, coverage: polled };
        },
        rest() {
          counted = undefined;
        },
      }),
  };
}

class NoAnswer extends Error {}

const answered = <Answer>(answer: Answer | Promise<Answer>) =>
  inTime(Promise.resolve(answer), TIME_LIMIT_MS, () => new NoAnswer());

interface Watch {
  readonly listener: (entry: StreamEntry) => void;
  readonly isWatched: () => boolean;
  readonly pollIntervalMs: number;
  readonly look: () => Promise<Readonly<Record<'events' | 'coverage', unknown>>>;
  /** Called when watching ends and, while no page is open, instead of a read. */
  readonly rest: () => void;
}

/** Never reads twice at the same time. */
function watch({ listener, isWatched, pollIntervalMs, look, rest }: Watch): () => void {
  const seen = new Map<string, string>();
  let isClosed = false;
  let isLost = false;
  let timer: NodeJS.Timeout;

  function tell(entry: StreamEntry): void {
    if (!isClosed) listener(entry);
  }

  /** The first read always reports a change, because the page requested its data earlier. */
  function compare(view: 'events' | 'coverage', found: unknown): void {
    const text = JSON.stringify(found);
    if (seen.get(view) !== text) tell({ kind: 'changed', view });
    seen.set(view, text);
  }

  async function lookAndTell(): Promise<void> {
    try {
      const { events, coverage } = await look();
      if (isLost) tell({ kind: 'recovered' });
      isLost = false;
      compare('events', events);
      compare('coverage', coverage);
    } catch (error) {
      if (!isLost) tell({ kind: 'lost', since: new Date().toISOString(), why: describeLoss(error) });
      isLost = true;
    }
  }

  async function lookOn(): Promise<void> {
    const begun = performance.now();
    if (isWatched()) {
      await lookAndTell();
    } else {
      seen.clear();
      rest();
    }
    const pauseMs = Math.min((performance.now() - begun) / MAX_LOAD, MAX_PAUSE_MS);
    if (!isClosed) timer = setTimeout(lookOn, Math.max(pollIntervalMs, pauseMs)).unref();
  }

  timer = setTimeout(lookOn, 0).unref();
  return () => {
    isClosed = true;
    clearTimeout(timer);
    rest();
  };
}

/** Uses only codes, because a driver's message can quote a connection string. */
export function describeLoss(thrown: unknown): string {
  if (thrown instanceof NoAnswer) return 'The inbox does not respond.';
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
