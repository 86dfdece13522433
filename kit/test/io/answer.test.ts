import { describe, expect, test } from 'vitest';
import { isAccepted, MAX_REPLY_BYTES, readReport } from '../../src/io/answer.js';

const answered = (reply: unknown, status = 200, type = 'text/plain') => {
  const text = typeof reply === 'string' ? reply : JSON.stringify(reply);
  return { kind: 'reply', status, elapsedMs: 1, ...readReport(Buffer.from(text), type) } as const;
};
const padding = 'x'.repeat(MAX_REPLY_BYTES);

describe('an answer is a success', () => {
  test.for([
    [{ outcome: 'handled' }],
    [{ outcome: 'queued' }, 202],
    ['', 204],
    ['OK'],
    [{ received: true }],
    [{ ok: true, error: null, errors: [] }],
    [{ success: true }],
    [{ status: 'ok' }],
    [[]],
    [padding],
  ] as const)('%j', ([reply, status]) => {
    expect(isAccepted(answered(reply, status))).toBe(true);
  });
});

describe('an answer is a failure', () => {
  test.for([
    ...['ignored', 'parked', 'dead', 'busy', 'rejected', 'failed', 'unknown', null].map((outcome) => [
      { outcome },
    ]),
    [{ code: 'ERR_HANDLER_FAILED', outcome: 'handled' }],
    [{ error: 'The database is down.' }],
    [{ error: { code: 'DATABASE_DOWN' } }],
    [{ errors: [{ message: 'The database is down.' }] }],
    [{ ok: false }],
    [{ success: false }],
    [{ status: 'error' }],
    [{ status: 'FAILED' }],
    [[{ id: 1 }, { error: 'The database is down.' }]],
    ['<!doctype html><title>Log in</title>'],
    ['\n<html><body>Welcome</body></html>'],
    ['Please sign in', 200, 'text/html; charset=utf-8'],
    [`${padding}x`],
    [{ padding, code: 'ERR_HANDLER_FAILED' }],
    ['', 302],
    ['', 401],
    [{ outcome: 'handled' }, 503],
  ] as readonly (readonly [unknown, number?, string?])[])('%j', (answer) => {
    expect(isAccepted(answered(...answer))).toBe(false);
  });
});

test('the text of an error is not repeated: it can hold a payload', () => {
  expect(answered({ error: 'no account DE44500105175407324931' })).toMatchObject({ code: 'error' });
});
