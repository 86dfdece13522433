/** What the messages about options suggest. */
import { createReceiver, memoryInbox } from 'stablehooks';
import { acknowledgeGap } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';

const good = { secret: 's', handlers: {} };

/** The message about these options. */
function messageAbout(options: Readonly<Record<string, unknown>>): string {
  try {
    createReceiver({ ...good, ...options });
  } catch (error) {
    if (error instanceof Error) return error.message;
  }
  throw new Error('The options were accepted.');
}

test.each([
  ['queueee', 'queue'],
  ['QUEUE', 'queue'],
  ['onOutcomes', 'onOutcome'],
  ['xxinbox', 'inbox'],
  ['inb', 'inbox'],
  ['acknowledgeeee', 'acknowledge'],
  ['handlerTimeout', 'handlerTimeoutMs'],
])('for the unknown option %s it suggests %s', (typed, name) => {
  expect(messageAbout({ [typed]: 1 })).toContain(`unknown option \`${typed}\`. Did you mean \`${name}\`?`);
});

test.each(['xxxinbox', 'in', 'q', 'somethingElse', 'acknowledgeeeee'])(
  'for the unknown option %s it suggests nothing, because no option is near',
  (typed) => {
    expect(messageAbout({ [typed]: 1 })).not.toContain('Did you mean');
  },
);

test('an option whose letters all differ is not suggested, however short it is', async () => {
  const gap = {
    from: '2026-03-01T00:00:00Z',
    until: '2026-03-02T00:00:00Z',
    openedAt: '2026-03-03T00:00:00Z',
  };
  const acknowledge = async (name: string) =>
    await acknowledgeGap(memoryInbox(), gap as never, { by: 'ops', reason: 'checked', [name]: 1 });
  await expect(acknowledge('bx')).rejects.toThrow('Did you mean `by`?');
  await expect(acknowledge('zz')).rejects.toThrow(/^(?!.*Did you mean)/);
});

test('a choice names what it can be', () => {
  expect(messageAbout({ encoding: 'utf8' })).toContain('`encoding` must be one of hex, base64, base64url');
});

test('a function with the methods is accepted where an object with them is', () => {
  const logger = Object.assign(() => undefined, { warn: () => undefined, error: () => undefined });
  expect(() => createReceiver({ ...good, logger })).not.toThrow();
});

test('a runtime that is a function is refused', () => {
  expect(messageAbout({ runtime: () => 0 })).toContain('`runtime` must be an object with some of');
});
