import { utimes, writeFile } from 'node:fs/promises';
import type { UnknownEvent } from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { complete } from '../inbox-states.js';
import { startService, TOKEN } from '../service.js';
import { openSqlite } from '../sqlite-file.js';

const SINCE = '2026-01-01T00:00:00.000Z';

/** A service with events, an inbox in which all of them are done, and the rows of a ledger that agrees. */
async function startBooks(amounts: readonly string[], options: Parameters<typeof startService>[0] = {}) {
  const folder = await makeFolder();
  const service = await startService({ clock: 'manual', startsAt: SINCE, ...options });
  const events: UnknownEvent[] = [];
  const emit = async (type: string, payload: Readonly<Record<string, unknown>>) => {
    const event = service.sandbox.emit(type, payload);
    await service.sandbox.clock.advance(10_000);
    return event;
  };
  using inbox = await openSqlite(folder.at('app.db'));
  for (const amount of amounts) {
    const event = await emit('transfer.settled', { amount, chain: 'solana' });
    await complete(inbox, event);
    events.push(event);
  }
  return {
    folder,
    service,
    events,
    emit,
    ledger: ['event_id,amount', ...events.map(({ id }, index) => `${id},${amounts[index]}`)],
    [Symbol.asyncDispose]: async () => {
      await service[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

type Books = Awaited<ReturnType<typeof startBooks>>;

/** Runs the command with a ledger of this content, once all events are old enough to be part of the span. */
async function reconcile(
  { folder, service }: Pick<Books, 'folder' | 'service'>,
  ledger: string,
  flags: readonly string[] = [],
) {
  await service.sandbox.clock.advance(600_000);
  await writeFile(folder.at('ledger.csv'), ledger);
  const places = ['--ledger', folder.at('ledger.csv'), '--inbox', folder.at('app.db')];
  return run(['reconcile', ...places, '--since', SINCE, '--amount-column', 'amount', ...flags], service);
}

/** The kinds and ids of the findings that the command printed as CSV. */
const findingsOf = (stdout: string) =>
  stdout
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => line.split(',').slice(0, 2).join(' '));

describe.concurrent('reconcile', () => {
  test('each error of the ledger is a line of CSV, and the exit code is 1', async () => {
    await using books = await startBooks(['1.50', '2.50', '3.50', '4.50']);
    const [header = '', good = '', , doubled = '', wrong = ''] = books.ledger;
    const ids = books.events.map(({ id }) => id);
    const unseen = (await books.emit('redeem.completed', {})).id;
    const rows = [header, good, doubled, doubled, wrong.replace('4.50', '4.05'), 'evt_nobody,1'];
    const { stdout, stderr, exitCode } = await reconcile(books, rows.join('\n'), ['--csv', '--dry-run']);
    expect(findingsOf(stdout).toSorted()).toEqual(
      [
        `missing ${ids[1]}`,
        `doubled ${ids[2]}`,
        `mismatched ${ids[3]}`,
        'extra evt_nobody',
        `unseen ${unseen}`,
      ].toSorted(),
    );
    expect(stdout).toContain('The amount is 4.05 in the ledger and 4.5 in the event.');
    expect(stderr).toContain('1 unseen, 1 missing, 1 doubled, 1 extra, 1 mismatched');
    expect(exitCode).toBe(1);
  });

  test('a dry run leaves an unseen event alone, and a normal run records it for the app', async () => {
    await using books = await startBooks([]);
    const { id } = await books.emit('transfer.settled', {});
    using inbox = await openSqlite(books.folder.at('app.db'));
    await reconcile(books, 'event_id,amount\n', ['--dry-run']);
    expect(await inbox.find(id)).toBeUndefined();
    const { stdout, exitCode } = await reconcile(books, 'event_id,amount\n');
    expect(stdout).toContain('1 unseen');
    expect(await inbox.find(id)).toMatchObject({ state: 'received', origin: 'pull' });
    expect(exitCode).toBe(1);
  });

  test.each([
    ['with a byte order mark and CRLF', '\uFEFF', '\r\n', ','],
    ['with semicolons', '', '\n', ';'],
    ['with tabs', '', '\n', '\t'],
  ])('a ledger %s is read', async (_, mark, newline, delimiter) => {
    await using books = await startBooks(['1.50', '2']);
    const rows = books.ledger.map((row) => row.replace(',', delimiter));
    const flags = ['--delimiter', delimiter === '\t' ? '\\t' : delimiter, '--json'];
    const { stdout } = await reconcile(books, mark + rows.join(newline), flags);
    expect(JSON.parse(stdout)).toMatchObject({ totals: { entries: 2, compared: 2 }, findings: NOTHING });
  });

  test('an export that is written into the file of the one before is as old as its last change', async () => {
    await using books = await startBooks(['1.50']);
    const path = books.folder.at('ledger.csv');
    await writeFile(path, books.ledger.join('\n'));
    const event = await books.emit('transfer.settled', { amount: '2.50' });
    using inbox = await openSqlite(books.folder.at('app.db'));
    await complete(inbox, event);
    await books.service.sandbox.clock.advance(600_000);
    const places = ['--ledger', path, '--inbox', books.folder.at('app.db'), '--since', SINCE, '--dry-run'];
    const findings = async (writtenAt: number) => {
      // The file is that of before, and its bytes are new.
      await writeFile(path, books.ledger.join('\n'));
      await utimes(path, new Date(), new Date(writtenAt));
      const { stdout, exitCode } = await run(['reconcile', ...places, '--csv'], books.service);
      return [...findingsOf(stdout), exitCode];
    };
    expect(await findings(Date.now() + 60_000)).toEqual([`missing ${event.id}`, 1]);
    // Of what was done after the export nothing is known.
    expect(await findings(Date.now() - 60_000)).toEqual([1]);
  });

  test.each(['2026-01-10T12:00:00', ''])(
    'the time %j is refused with its line and column, and what to write',
    async (time) => {
      await using books = await startBooks([]);
      const ledger = ['event_id,amount,at', 'evt_1,1,2020-01-01t00:00:00.5+01:00', `evt_2,1,${time}`];
      const { stderr, exitCode } = await reconcile(books, ledger.join('\n'), ['--time-column', 'at']);
      expect(stderr).toMatch(/ line 3: the column at is not a date and time/);
      expect(exitCode).toBe(2);
    },
  );

  test('an event of which the inbox has another one than the service lists is a finding, and exit 1', async () => {
    await using books = await startBooks(['1.50']);
    const event = await books.emit('transfer.settled', { amount: '1000.00' });
    using inbox = await openSqlite(books.folder.at('app.db'));
    await complete(inbox, { ...event, payload: { amount: '0.01' } });
    const ledger = [...books.ledger, `${event.id},1000.00`].join('\n');
    const text = await reconcile(books, ledger);
    expect(text.stdout).toMatch(new RegExp(`^conflicting  ${event.id} .*\n {13}The`, 'm'));
    expect(text.stdout).toMatch(/\ndiffer .*: 1 conflicting\.\n/);
    expect(text.exitCode).toBe(1);
  });

  test('a ledger is read from standard input with -', async () => {
    await using books = await startBooks(['1.50', '2']);
    await books.service.sandbox.clock.advance(600_000);
    const places = ['--ledger', '-', '--inbox', books.folder.at('app.db'), '--since', SINCE];
    const args = ['reconcile', ...places, '--amount-column', 'amount', '--json'];
    const input = books.ledger.join('\n');
    const { stdout } = await run(args, { ...books.service, input });
    expect(JSON.parse(stdout)).toMatchObject({ totals: { entries: 2, compared: 2 }, findings: NOTHING });
    const twice = await run([...args, '--token-file', '-'], { ...books.service, input: TOKEN });
    expect(twice.stderr).toContain('already used for --token-file');
    expect(twice.exitCode).toBe(2);
  });

  test('a span without time is wrong use', async () => {
    await using books = await startBooks([]);
    const { stderr, exitCode } = await reconcile(books, 'event_id,amount\n', ['--until', SINCE]);
    expect(stderr).toMatch(/ the span is empty/);
    expect(exitCode).toBe(2);
  });

  test('a column that does not exist is wrong use, and the message names those that do', async () => {
    await using books = await startBooks([]);
    const { stderr, exitCode } = await reconcile(books, 'id,sum\n', ['--id-column', 'id']);
    expect(stderr).toMatch(/the column amount is missing\. The columns are: id, sum\./);
    expect(exitCode).toBe(2);
  });

  test('a ledger without a header is wrong use, and its first entry is not shown', async () => {
    await using books = await startBooks([]);
    const { stderr, exitCode } = await reconcile(books, 'evt_1,DE44500105175407324931\n');
    expect(stderr).toMatch(/must be a header/);
    expect(stderr).not.toContain('DE44');
    expect(exitCode).toBe(2);
  });

  test('other columns are compared as text, and types without entries are not missed', async () => {
    await using books = await startBooks(['1']);
    const [event] = books.events;
    const ledger = (chain: unknown) => `event_id,amount,chain\n${event?.id},1,${chain}\n`;
    const flags = ['--compare', 'chain=payload.chain', '--csv'];
    const same = await reconcile(books, ledger(event?.payload['chain']), flags);
    expect(findingsOf(same.stdout)).toEqual([]);
    const different = await reconcile(books, ledger('doge'), flags);
    expect(findingsOf(different.stdout)).toEqual([`mismatched ${event?.id}`]);
    const unbooked = await reconcile(books, 'event_id,amount\n', [
      '--ledger-types',
      'redeem.completed',
      '--csv',
    ]);
    expect(findingsOf(unbooked.stdout)).toEqual([]);
  });

  test('books without anything to compare are exit 1, and are not said to agree', async () => {
    await using books = await startBooks([]);
    for (const flags of [[], ['--csv']]) {
      const { stdout, stderr, exitCode } = await reconcile(books, 'event_id,amount\n', flags);
      expect(stdout + stderr).toMatch(/\n(?:not shown {3})?Nothing was compared: /);
      expect(stdout + stderr).not.toMatch(/agree|No problems were found/);
      expect(exitCode).toBe(1);
    }
  });

  test('the exit code is 0 if the books agree and the list is complete', async () => {
    await using books = await startBooks(Array.from({ length: 100 }, () => '1.50'));
    // The older events show that the list reaches back to the beginning of the span.
    const since = books.events[40]?.created_at ?? '';
    const { stdout, exitCode } = await reconcile(books, books.ledger.join('\n'), ['--since', since]);
    expect(stdout).toMatch(/^list +60 events in the span, from \d+ requests, complete\n/);
    expect(stdout).toMatch(
      /\nagree +No problems were found in the span from 2026-01-01T00:06:40\S+ to \S+ \(60 events/,
    );
    expect(exitCode).toBe(0);
  });

  test('the exit code is 1 if the list is not proven complete, although nothing else is wrong', async () => {
    await using books = await startBooks(
      Array.from({ length: 60 }, () => '1.50'),
      { faults: { listOrder: 'shuffled', listCap: 60 } },
    );
    const { stdout, exitCode } = await reconcile(books, books.ledger.join('\n'), ['--json']);
    expect(JSON.parse(stdout)).toMatchObject({ agree: false, complete: false, findings: NOTHING });
    expect(exitCode).toBe(1);
  });
});

const NOTHING = Object.fromEntries(
  ['unseen', 'missing', 'doubled', 'extra', 'mismatched', 'waiting', 'dead', 'unlisted', 'conflicting'].map(
    (kind) => [kind, { count: 0, ids: [] }],
  ),
);
