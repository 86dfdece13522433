/** A receiver that is set up wrongly says so at once, by the option's name. */
import { createReceiver, memoryInbox } from 'stablehooks';
import { describe, expect, test } from 'vitest';

const good = { secret: 's', handlers: {} };

describe('createReceiver throws ERR_CONFIG_INVALID', () => {
  test.each<[string, unknown, RegExp]>([
    ['no secret', { handlers: {} }, /secret/],
    ['an empty secret', { ...good, secret: '' }, /secret/],
    ['an empty list of secrets', { ...good, secret: [] }, /secret/],
    [
      'a misspelt option',
      { ...good, handlerTimeout: 5 },
      /unknown option `handlerTimeout`\. Did you mean `handlerTimeoutMs`\?/,
    ],
    [
      'a misspelt type',
      { ...good, handlers: { 'transfer.setled': () => undefined } },
      /Did you mean `transfer\.settled`\?/,
    ],
    ['a misspelt payload', { ...good, payloads: { transfer: {} } }, /`payloads`: unknown option `transfer`/],
    ['no handlers', { secret: 's' }, /`handlers`/],
    ['a handler that is none', { ...good, handlers: { 'transfer.settled': 'run' } }, /transfer\.settled/],
    ['a limit of nothing', { ...good, maxBodyBytes: 0 }, /maxBodyBytes/],
    ['half a millisecond', { ...good, leaseMs: 0.5 }, /leaseMs/],
    ['a time that no timer takes', { ...good, handlerTimeoutMs: 2 ** 31 }, /handlerTimeoutMs/],
    ['attempts as text', { ...good, maxAttempts: '3' }, /maxAttempts/],
    ['a lease shorter than a handler', { ...good, leaseMs: 10_000, handlerTimeoutMs: 10_000 }, /leaseMs/],
    ['an unknown encoding', { ...good, encoding: 'utf8' }, /encoding/],
    [
      'a queue without a durable inbox',
      { ...good, inbox: memoryInbox(), queue: { enqueue() {} } },
      /durable/,
    ],
    ['no options', undefined, /createReceiver/],
  ])('%s', (_name, options, message) => {
    const create = () => createReceiver(options as Parameters<typeof createReceiver>[0]);
    expect(create).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
    expect(create).toThrow(message);
  });
});
