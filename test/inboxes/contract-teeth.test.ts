/** The contract fails, and ends, when an inbox breaks a rule. */
import { memoryInbox } from 'stablehooks';
import { expect, test } from 'vitest';
import { type InboxUnderTest, inboxContract } from '../contracts/index.js';

type AnyInbox = InboxUnderTest['inbox'];

/** As a process would that had only the steps for events that it runs. */
async function ignoreByClaims(
  inbox: AnyInbox,
  events: Parameters<AnyInbox['ignore']>[0],
  { origin }: Parameters<AnyInbox['ignore']>[1],
) {
  return Promise.all(
    events.map(async (event) => {
      const claim = await inbox.claim(event, { leaseMs: 60_000, origin });
      if (claim.state === 'claimed') await inbox.complete(claim.lease);
      return claim.state === 'claimed' ? ('new' as const) : ('done' as const);
    }),
  );
}

const RETRY_TIME = { rule: 'a failed event is due after its retry time, to the ms' };
const retryingAfter =
  (change: (ms: number) => number) =>
  (right: AnyInbox): Partial<AnyInbox> => ({
    fail: (lease, { retryAfterMs, error }) =>
      right.fail(lease, { retryAfterMs: retryAfterMs && change(retryAfterMs), error }),
  });

const MISTAKES: Readonly<
  Record<
    string,
    {
      readonly rule: string;
      readonly why: RegExp;
      /** Whether the clock moves on at each call. */
      readonly moves?: true;
      mistake(right: AnyInbox): Partial<AnyInbox>;
    }
  >
> = {
  'list that ignores `after`': {
    rule: 'listing page by page returns each record of the state once, the first received first, or last with `newest`',
    why: /it must begin after `after`/,
    moves: true,
    mistake: (right) => ({ list: (options) => right.list({ ...options, after: undefined }) }),
  },
  'list that reads a misspelt state as an empty one': {
    rule: 'list and prune reject with ERR_CONFIG_INVALID when an option is missing, unknown or makes no sense, and remove nothing',
    why: /must be refused/,
    mistake: () => ({ list: async () => [] }),
  },
  'list that returns 100 records at most': {
    rule: 'listing returns as many records as `limit` asks for, if there are as many',
    why: /With 1,000 asked for and 1,001 there, 100 were listed/,
    mistake: (right) => ({
      list: ({ limit, ...rest }) => right.list({ ...rest, limit: Math.min(limit, 100) }),
    }),
  },
  'record that drops what is beyond 1,000 events': {
    rule: 'record stores a page of 1,100 events in one call, an id twice in a page once, and no empty page',
    why: /1000 are stored/,
    mistake: (right) => ({
      record: async (events, options) => {
        const results = await right.record(events.slice(0, 1_000), options);
        return events.map((_, index) => results[index] ?? 'new');
      },
    }),
  },
  'claim that counts 20 attempts at most': {
    rule: 'an event can be attempted 30 times, each attempt has its number, and the history keeps the last 10',
    why: /20 !== 21/,
    mistake: (right) => ({
      claim: async (...args) => {
        const claim = await right.claim(...args);
        if (claim.state !== 'claimed') return claim;
        return { ...claim, lease: { ...claim.lease, attempt: Math.min(claim.lease.attempt, 20) } };
      },
    }),
  },
  'fail that rounds the retry time down to seconds': {
    ...RETRY_TIME,
    why: /which is 1 ms after the call/,
    mistake: retryingAfter((ms) => Math.floor(ms / 1_000) * 1_000),
  },
  'fail that rounds the retry time up to seconds': {
    ...RETRY_TIME,
    why: /which is 1 ms after the call/,
    mistake: retryingAfter((ms) => Math.ceil(ms / 1_000) * 1_000),
  },
  'fail that waits for a day at most': {
    ...RETRY_TIME,
    why: /which is 90000001 ms after the call/,
    mistake: retryingAfter((ms) => Math.min(ms, 86_400_000)),
  },
  'takeDue that hides an event for years if the visibility is over 2 s': {
    rule: 'an event that takeDue returned is due again after `visibilityTimeoutMs`, to the ms',
    why: /which is 62503 ms after the call/,
    mistake: (right) => ({
      takeDue: ({ visibilityTimeoutMs: ms, ...rest }) =>
        right.takeDue({ ...rest, visibilityTimeoutMs: ms > 2_000 ? 2 ** 40 : ms }),
    }),
  },
  'record that rounds `dueInMs` to seconds': {
    rule: 'a recorded event is due after `dueInMs`, to the ms',
    why: /which is 1 ms after the call/,
    mistake: (right) => ({
      record: (events, { dueInMs, ...rest }) =>
        right.record(events, { ...rest, dueInMs: dueInMs && Math.round(dueInMs / 1_000) * 1_000 }),
    }),
  },
  'claim that leases for 10 s at most': {
    rule: 'a lease ends after `leaseMs`, to the ms',
    why: /which is 62503 ms after the call/,
    mistake: (right) => ({
      claim: (event, { leaseMs, ...rest }) =>
        right.claim(event, { ...rest, leaseMs: Math.min(leaseMs, 10_000) }),
    }),
  },
  'complete that does not compare the token': {
    rule: 'after another claim of a lapsed lease, the old token can neither complete nor fail the event',
    why: /"lost A.1"/,
    mistake(right) {
      const tokens = new Map<string, string>();
      return {
        async claim(...args) {
          const claim = await right.claim(...args);
          if (claim.state === 'claimed') tokens.set(claim.lease.id, claim.lease.token);
          return claim;
        },
        complete: (lease) => right.complete({ ...lease, token: tokens.get(lease.id) ?? '' }),
      };
    },
  },
  'claim that ignores the ordering key': {
    rule: 'while an event of a key is leased, its other events wait, and events of other keys or without one are claimed',
    why: /"claim A:k"/,
    mistake: (right) => ({ claim: (event, options) => right.claim(event, { ...options, key: undefined }) }),
  },
  'ignore that leaves new events to be run': {
    rule: 'an ignored event is done without an attempt, and later claims are answered done',
    why: /"is A = done 0 null"/,
    mistake: (right) => ({ ignore: (events, options) => right.record(events, { ...options, dueInMs: 0 }) }),
  },
  'ignore that claims and completes': {
    rule: 'an ignored event is done without an attempt, and later claims are answered done',
    why: /"is A = done 0 null"/,
    mistake: (right) => ({ ignore: (events, options) => ignoreByClaims(right, events, options) }),
  },
  'ignore that ends known events': {
    rule: 'ignore answers for each event of a page, in order: new, or its state, and known events do not change',
    why: /The record has changed|Expected values/,
    mistake: (right) => ({
      async ignore(events, options) {
        const states = await right.ignore(events, options);
        await ignoreByClaims(right, events, options);
        return states;
      },
    }),
  },
  'takeDue that takes events of every type': {
    rule: 'takeDue takes only events of `types`, whatever their state, and leaves the others as they are',
    why: /"due = none"/,
    mistake: (right) => ({
      takeDue: (options) => right.takeDue({ ...options, types: ['transfer.settled', 'mint.completed'] }),
    }),
  },
  'takeDue that hides nothing': {
    rule: 'an event that takeDue returned is not returned again for `visibilityTimeoutMs`, and can be claimed meanwhile',
    why: /"due = none"/,
    mistake: (right) => ({ takeDue: (options) => right.takeDue({ ...options, visibilityTimeoutMs: 0 }) }),
  },
  'prune that takes a negative age': {
    rule: 'list and prune reject with ERR_CONFIG_INVALID when an option is missing, unknown or makes no sense, and remove nothing',
    why: /prune\(.*-1.*\) must be refused/,
    mistake: (right) => ({
      prune: ({ olderThanMs, ...rest }) => right.prune({ olderThanMs: Math.max(0, olderThanMs), ...rest }),
    }),
  },
};

test.each(Object.entries(MISTAKES))(
  'the contract of inboxes detects %s',
  async (_, { rule, why, moves = false, mistake }) => {
    // Each mistake is wrong by less than a slow machine can take for a case, so the clock stands still.
    let ms = 1_800_000_000_000;
    const now = () => {
      ms += moves ? 1 : 0;
      return ms;
    };
    const runtime = { now };
    const right = memoryInbox({ runtime });
    const run = inboxContract.find(({ name }) => name === rule)?.run;
    await run?.({ inbox: right, second: right });
    const other = memoryInbox({ runtime });
    const wrong = { ...other, ...mistake(other) };
    await expect(run?.({ inbox: wrong, second: wrong })).rejects.toThrow(why);
  },
);
