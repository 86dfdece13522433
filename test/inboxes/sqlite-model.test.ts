import fc from 'fast-check';
import Database from 'libsql';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import {
  anyEvent,
  type Command,
  claims,
  commonCommands,
  ms,
  openMemory,
  openWorld,
  play,
  records,
  someTypes,
} from './model.js';

const origin = fc.constantFrom('push', 'pull', 'queue', 'redrive');
const key = fc.constantFrom(undefined, 'a', 'b');
const holder = fc.record({ holder: fc.constantFrom('a', 'b'), leaseMs: ms });
const text = fc.string({ unit: 'binary' });
const note = fc.constantFrom('poll', 'counter');

const commands: fc.Arbitrary<Command> = fc.oneof(
  ...commonCommands(text),
  claims(fc.record({ leaseMs: ms, origin, early: fc.boolean(), key })),
  records(fc.array(fc.tuple(anyEvent, key), { maxLength: 8 }), fc.record({ dueInMs: fc.option(ms), origin })),
  fc.tuple(fc.array(anyEvent, { maxLength: 8 }), fc.record({ origin })).map<Command>(
    ([page, options]) =>
      ({ inbox }) =>
        inbox.ignore(page, options),
  ),
  fc
    .record({ limit: fc.integer({ min: 1, max: 4 }), visibilityTimeoutMs: ms, types: someTypes })
    .map<Command>(
      (options) =>
        ({ inbox }) =>
          inbox.takeDue(options),
    ),
  fc.tuple(note, holder).map<Command>(
    ([name, options]) =>
      ({ inbox }) =>
        inbox.leaseNote(name, options),
  ),
  fc
    .tuple(note, fc.jsonValue(), fc.option(holder, { nil: undefined }))
    .map<Command>(([name, value, fence]) => async ({ inbox }) => [
      await inbox.writeNote(name, JSON.stringify(value), fence),
      await inbox.readNote(name),
    ]),
  ms.map<Command>(
    (olderThanMs) =>
      ({ inbox }) =>
        inbox.prune({ olderThanMs }),
  ),
);

test('the SQLite inbox returns the same as the memory inbox for random sequences of calls', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(commands, { maxLength: 60, size: 'max' }), async (sequence) => {
      const db = new Database(':memory:');
      const sqlite = openWorld((runtime) => sqliteInbox(db, { runtime }));
      expect(await play(sqlite, sequence)).toEqual(await play(openMemory(), sequence));
      db.close();
    }),
    { numRuns: atNight(60, 25) },
  );
});
