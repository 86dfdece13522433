import assert from 'node:assert/strict';
import { HOUR_MS, simultaneously, type TestedInbox, test } from './given.js';

/** Texts that are hard to store. */
const TEXTS = [
  '',
  '{"by":"Ada \\"Ops\\" O\'Brien \\\\ {} [] $1 ?","reason":"\\u0000 \\ud83d"}',
  'the ledger agrees\r\n\tticket ✓ 😀 \u2028 end ',
  JSON.stringify(Array.from({ length: 20_000 }, (_, number) => `évt_${number}`)),
];

const lease = async ({ port }: TestedInbox, holder: string, leaseMs = HOUR_MS) =>
  port.leaseNote('poll', { holder, leaseMs });

const write = async ({ port }: TestedInbox, text: string, holder?: string) =>
  port.writeNote('poll', text, holder === undefined ? undefined : { holder });

const read = async ({ port }: TestedInbox) => port.readNote('poll');

export const noteCases = [
  test('a note is null until it is written, and comes back unchanged, whatever its text', async (inbox) => {
    assert.equal(await read(inbox), null);
    for (const text of TEXTS) {
      assert.equal(await write(inbox, text), true);
      assert.equal(await read(inbox), text);
    }
  }),
  test('notes of different names have different texts and leases', async (inbox) => {
    const other = 'Poll ';
    await write(inbox, 'the text');
    await lease(inbox, 'a');
    assert.equal(await inbox.port.readNote(other), null);
    assert.equal(await inbox.port.leaseNote(other, { holder: 'b', leaseMs: HOUR_MS }), true);
    assert.equal(await inbox.port.writeNote(other, 'another text', { holder: 'b' }), true);
    assert.equal(await read(inbox), 'the text');
    assert.equal(await lease(inbox, 'b'), false);
  }),
  test('a holder that never had the lease of a note cannot write it', async (inbox) => {
    assert.equal(await write(inbox, 'lost', 'a'), false);
    assert.equal(await read(inbox), null);
    await write(inbox, 'kept');
    assert.equal(await write(inbox, 'lost', 'a'), false);
    await lease(inbox, 'b');
    assert.equal(await write(inbox, 'lost', 'a'), false);
    assert.equal(await read(inbox), 'kept');
  }),
  test('of 20 simultaneous calls of leaseNote exactly one gets the lease', async (inbox) => {
    const answers = await simultaneously(20, (index) => lease(inbox, `holder ${index}`));
    assert.equal(answers.filter(Boolean).length, 1);
  }),
  test('a lapsed lease goes to the next holder, and a write of the old holder changes nothing', async (inbox) => {
    await lease(inbox, 'a', 0);
    assert.equal(await lease(inbox, 'b'), true);
    assert.equal(await lease(inbox, 'a'), false);
    assert.equal(await write(inbox, 'of a', 'a'), false);
    assert.equal(await read(inbox), null);
    assert.equal(await write(inbox, 'of b', 'b'), true);
    assert.equal(await write(inbox, 'of a', 'a'), false);
    assert.equal(await read(inbox), 'of b');
  }),
  test('a lease that lapsed without another holder can still write and be renewed', async (inbox) => {
    await lease(inbox, 'a', 0);
    assert.equal(await write(inbox, 'of a', 'a'), true);
    assert.equal(await lease(inbox, 'a'), true);
    assert.equal(await lease(inbox, 'b'), false);
  }),
  test('a lease is acquired, renewed and released without a change of the text', async (inbox) => {
    await lease(inbox, 'a');
    await write(inbox, 'of a', 'a');
    assert.equal(await lease(inbox, 'a'), true);
    assert.equal(await lease(inbox, 'b', 0), false);
    assert.equal(await lease(inbox, 'a', 0), true);
    assert.equal(await lease(inbox, 'b'), true);
    assert.equal(await read(inbox), 'of a');
  }),
  test('a write keeps the lease of the note', async (inbox) => {
    await lease(inbox, 'a');
    await write(inbox, 'of its holder', 'a');
    await write(inbox, 'of another owner');
    assert.equal(await lease(inbox, 'b'), false);
    assert.equal(await write(inbox, 'of its holder', 'a'), true);
  }),
];
