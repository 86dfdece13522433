import { expect, test } from 'vitest';
import { isAccepted, readReport } from '../../src/io/answer.js';

const answered = (reply: object) => {
  const bytes = new TextEncoder().encode(JSON.stringify(reply));
  return { kind: 'reply', status: 200, elapsedMs: 1, ...readReport(bytes) } as const;
};

test.for([
  { error: 'The database is down.' },
  { error: { code: 'DATABASE_DOWN' } },
  { errors: [{ message: 'The database is down.' }] },
  { ok: false },
  { success: false },
  { status: 'error' },
  { status: 'FAILED' },
  [{ id: 1 }, { error: 'The database is down.' }],
])('a 2xx of another receiver with %o reports a failure', (reply) => {
  expect(isAccepted(answered(reply))).toBe(false);
});

test.for([
  { received: true },
  { ok: true, error: null, errors: [] },
  { success: true },
  { status: 'ok' },
  [],
  'ok',
])('a 2xx of another receiver with %o is a success', (reply) => {
  expect(isAccepted(answered(reply as object))).toBe(true);
});

test('the text of an error is not repeated: it can hold a payload', () => {
  expect(answered({ error: 'no account DE44500105175407324931' })).toMatchObject({ code: 'error' });
});
