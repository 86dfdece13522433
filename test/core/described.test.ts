/** How the lines of a log describe errors and other values that are thrown. */
import { createReceiver, logOutcome, type Outcome, StablehooksError } from 'stablehooks';
import { expect, test } from 'vitest';
import { redactCommand } from '../../src/core/redact-command.js';
import { anEvent } from '../receiver/delivery.js';

/** The line of an outcome after its own message. */
function described(cause: unknown): string {
  const lines: string[] = [];
  const logger = { warn: () => undefined, error: (line: string) => void lines.push(line) };
  const error = new StablehooksError('ERR_INBOX_FAILED', 'Down.', { cause });
  logOutcome({ kind: 'unavailable', origin: 'push', error } as Outcome, logger);
  return lines.join().replace('stablehooks: unavailable (push) ERR_INBOX_FAILED: Down.\ncaused by ', '');
}

/** An error without a stack. */
const plain = (message: string, options?: ErrorOptions) =>
  Object.assign(new Error(message, options), { stack: '' });

test('an error is described by its stack, and without one by its name and message', () => {
  const error = new TypeError('no route');
  expect(described(error)).toBe(error.stack);
  expect(described(Object.assign(error, { stack: undefined }))).toBe('TypeError: no route');
});

test('the causes of an error follow, at most three', () => {
  const chain = ['e', 'd', 'c', 'b', 'a'].reduce<Error | undefined>(
    (cause, message) => plain(message, { cause }),
    undefined,
  );
  expect(described(chain)).toBe(
    ['Error: a', 'caused by Error: b', 'caused by Error: c', 'caused by Error: d'].join('\n'),
  );
});

test('other values are described by their text, even values that cannot be read', () => {
  expect(described('a text')).toBe('a text');
  expect(described(7)).toBe('7');
  const unreadable = new Proxy(new Error(), {
    get() {
      throw new Error('unreadable');
    },
  });
  expect(described(unreadable)).toBe('a value that cannot be shown');
});

test('of an error of Prisma only the last line is shown: those before it quote the arguments of the call', () => {
  const message = 'Invalid call:\n  create({ data: { iban: "DE02" } })\nUnique constraint failed';
  class PrismaClientKnownRequestError extends Error {
    override readonly name = 'PrismaClientKnownRequestError';
  }
  expect(described(new PrismaClientKnownRequestError(message))).toBe(
    'PrismaClientKnownRequestError: Unique constraint failed',
  );
  expect(described(plain('first line\nlast line'))).toBe('Error: first line\nlast line');
});

test('of an error of Drizzle only its cause is shown: the error quotes the parameters of the statement', () => {
  const query = (options?: ErrorOptions) =>
    Object.assign(plain('Failed query: insert params: DE02', options), { params: ['DE02'] });
  expect(described(query({ cause: plain('connection refused') }))).toBe('Error: connection refused');
  expect(described(query())).toBe('Error: Failed query: insert params: DE02');
});

test('an error of a Redis client is passed on without the command, and other errors as they are', async () => {
  const rejected = (error: unknown) =>
    redactCommand(Promise.reject(error)).catch((thrown: unknown) => thrown);
  const reply = Object.assign(new TypeError('ERR no'), { command: { args: ['DE02'] } });
  expect(await rejected(reply)).toEqual(Object.assign(new Error('ERR no'), { name: 'TypeError' }));
  expect(await rejected(reply)).not.toHaveProperty('command');
  const upstash = new Error('ERR no, command was: ["SET","DE02"]');
  expect(await rejected(upstash)).toMatchObject({ message: 'ERR no', name: 'Error' });
  for (const other of [new Error('ERR no'), 'a text', undefined]) expect(await rejected(other)).toBe(other);
  expect(await redactCommand(Promise.resolve(7))).toBe(7);
});

test('an event that cannot be written as JSON is ERR_EVENT_MALFORMED', async () => {
  let nested: unknown = 1;
  for (let depth = 0; depth < 100_000; depth += 1) nested = [nested];
  for (const payload of [{ nested }, { amount: 1n }] as unknown as Record<string, unknown>[]) {
    const logger = { warn: () => undefined, error: () => undefined };
    const receiver = createReceiver({ secret: 's', handlers: {}, logger });
    const { error } = await receiver.accept(anEvent({ payload }), 'pull');
    expect(error?.code).toBe('ERR_EVENT_MALFORMED');
  }
});
