/** The values that options accept, and the messages about others. */
import { createReceiver } from 'stablehooks';
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

test('a choice names what it can be', () => {
  expect(messageAbout({ signature: { encoding: 'utf8' } })).toContain(
    '`encoding` must be one of hex, base64, base64url',
  );
});

test('a function with the methods is accepted where an object with them is', () => {
  const logger = Object.assign(() => undefined, { warn: () => undefined, error: () => undefined });
  expect(() => createReceiver({ ...good, logger })).not.toThrow();
});

test('a runtime that is a function is refused', () => {
  expect(messageAbout({ runtime: () => 0 })).toContain('`runtime` must be an object with some of');
});
