/** The contract fails, and ends, when an inbox breaks a rule. */
import { memoryInbox } from 'stablehooks';
import { type InboxUnderTest, inboxContract } from 'stablehooks/conformance';
import { expect, test } from 'vitest';

type AnyInbox = InboxUnderTest['inbox'];

const MISTAKES: Readonly<
  Record<string, { readonly rule: string; readonly why: RegExp; mistake(right: AnyInbox): Partial<AnyInbox> }>
> = {
  'list that ignores `after`': {
    rule: 'listing page by page returns each record of the state once, in both orders',
    why: /it must begin after `after`/,
    mistake: (right) => ({ list: (options) => right.list({ ...options, after: undefined }) }),
  },
  'list that reads a misspelt state as an empty one': {
    rule: 'list and prune reject with ERR_CONFIG_INVALID when an option is missing, unknown or makes no sense, and remove nothing',
    why: /must be refused/,
    mistake: () => ({ list: async () => [] }),
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
  async (_, { rule, why, mistake }) => {
    const right = memoryInbox();
    const run = inboxContract.find(({ name }) => name === rule)?.run;
    await run?.({ inbox: right, second: right });
    const other = memoryInbox();
    const wrong = { ...other, ...mistake(other) };
    await expect(run?.({ inbox: wrong, second: wrong })).rejects.toThrow(why);
  },
);

test('the contract of inboxes ends when takeDue returns the same event for ever', async () => {
  const right = memoryInbox();
  const rule = inboxContract.find(({ name }) => name.includes('does not keep back the others that wait'));
  const wrong: AnyInbox = {
    ...right,
    takeDue: async (options) => {
      const [event] = await right.takeDue({ ...options, visibilityTimeoutMs: 0 });
      return event === undefined ? [] : [event];
    },
  };
  await expect(rule?.run({ inbox: wrong, second: wrong })).rejects.toThrow();
});
