import { mkdir, rename, symlink } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { UnknownEvent } from 'stablehooks';
import { migratePostgres } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { startPostgres } from '../../../test/services/postgres.js';
import { makeFolder, SECRET, start } from '../command.js';
import { readStream, send, signIn } from '../inspector/http.js';
import { deliverToFile, openSqlite } from '../sqlite-file.js';

const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url));

/** Starts the command, and signs in with the URL that it prints. */
async function startInspector(
  flags: readonly string[],
  options: { readonly cwd?: string; readonly env?: Record<string, string> } = {},
) {
  const command = start(['inspect', '--json', ...flags], options);
  const [line = ''] = (await command.printed(/\n/)).split('\n');
  const { kind, url } = JSON.parse(line);
  expect(kind).toBe('inspector.listening');
  const session = await signIn(url);
  return {
    ...session,
    get: async (path: string) => send(`${session.url}/api/${path}`, session),
    act: async (name: string, input: object) =>
      send(`${session.url}/api/actions/${name}`, {
        method: 'POST',
        headers: { ...session.headers, 'content-type': 'application/json' },
        body: JSON.stringify(input),
      }),
    command,
    async [Symbol.asyncDispose]() {
      command.interrupt();
      await command.ended;
    },
  };
}

/** A folder with an inbox. The driver is looked for in the current folder. */
async function makeWorld(events: readonly UnknownEvent[]) {
  const folder = await makeFolder();
  await symlink(MODULES, folder.at('node_modules'));
  await deliverToFile(folder.at('app.db'), events);
  return folder;
}

describe.concurrent('an SQLite file', () => {
  test('its counts, events and gaps are served, and a dead event is requeued', async () => {
    const event = exampleEvent('transfer.failed');
    await using folder = await makeWorld([event, exampleEvent('transfer.settled')]);
    await using inspector = await startInspector(['--inbox', 'app.db'], { cwd: folder.path });

    expect(JSON.parse((await inspector.get('session')).text)).toMatchObject({
      name: 'app.db',
      views: ['overview', 'events', 'coverage'],
      actions: ['requeue', 'discard', 'acknowledge-gap'],
    });
    const { rows } = JSON.parse((await inspector.get('events?state=dead')).text);
    expect(rows).toMatchObject([
      { id: event.id, state: 'dead', verdict: expect.stringContaining('the account was closed') },
    ]);
    const detail = await inspector.get(`events/${event.id}`);
    expect(JSON.parse(detail.text)).toMatchObject({ body: 'stored', history: [{ name: 'Attempt 1' }] });

    const requeue = async () =>
      JSON.parse((await inspector.act('requeue', { filter: { ids: [event.id] } })).text);
    expect(await requeue()).toMatchObject({ matched: 1, eligible: 1, changed: 1 });
    expect(await requeue()).toMatchObject({ matched: 1, eligible: 0, changed: 0 });
    using inbox = await openSqlite(folder.at('app.db'));
    expect(await inbox.find(event.id)).toMatchObject({ state: 'received' });
  });

  test('with --read-only the page has no actions, and they are refused', async () => {
    const event = exampleEvent('transfer.failed');
    await using folder = await makeWorld([event]);
    await using inspector = await startInspector(['--inbox', 'app.db', '--read-only'], {
      cwd: folder.path,
    });
    expect(JSON.parse((await inspector.get('session')).text).actions).toEqual([]);
    expect((await inspector.act('requeue', { filter: { ids: [event.id] } })).status).toBe(403);
    using inbox = await openSqlite(folder.at('app.db'));
    expect(await inbox.find(event.id)).toMatchObject({ state: 'dead' });
  });

  test('Ctrl-C ends it with 130, and the printed text has the URL and no secret', async () => {
    await using folder = await makeWorld([]);
    const command = start(['inspect', '--inbox', 'app.db'], { cwd: folder.path });
    const printed = await command.printed('Press Ctrl-C to stop.');
    expect(printed).toMatch(
      /^The inspector of app\.db is at:\nhttp:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}\n/,
    );
    expect(printed).not.toContain(SECRET);
    command.interrupt();
    expect((await command.ended).exitCode).toBe(130);
  });

  test('a file whose disk goes away is lost until it returns', async () => {
    await using folder = await makeWorld([]);
    await mkdir(folder.at('disk'));
    await deliverToFile(folder.at('disk/app.db'), [exampleEvent('transfer.settled')]);
    await using inspector = await startInspector(['--inbox', 'disk/app.db'], { cwd: folder.path });
    const stream = await readStream(`${inspector.url}/api/stream`, inspector);
    await rename(folder.at('disk'), folder.at('away'));
    const lost = /^lost \{.*"since":"\d{4}-.*"why":"The inbox cannot be read/;
    expect(await stream.next('lost', 'recovered')).toMatch(lost);
    expect((await inspector.get('events/counts')).status).toBe(503);
    // A page that is opened now learns it as well.
    const second = await readStream(`${inspector.url}/api/stream`, inspector);
    expect(await second.next('lost', 'recovered')).toMatch(lost);
    await rename(folder.at('away'), folder.at('disk'));
    expect(await stream.next('lost', 'recovered')).toMatch(/^recovered /);
    expect((await inspector.get('events/counts')).status).toBe(200);
  });
});

test('Postgres is lost while its server is stopped, and recovered', async () => {
  const postgres = await startPostgres();
  try {
    const pool = new pg.Pool({ connectionString: postgres.url });
    await migratePostgres(pool);
    await pool.end();
    const env = { INBOX_URL: postgres.url };
    await using inspector = await startInspector(['--inbox', 'env:INBOX_URL'], { env });
    expect(JSON.parse((await inspector.get('session')).text).name).toBe('env:INBOX_URL');
    const stream = await readStream(`${inspector.url}/api/stream`, inspector);
    await postgres.halt();
    const lost = await stream.next('lost', 'recovered');
    expect(lost).toMatch(/^lost \{.*"why":"The inbox cannot be/);
    expect(lost).not.toContain('postgres:password');
    // By then the driver has tried to connect.
    await expect.poll(async () => (await inspector.get('events/counts')).text).toContain('(ECONNREFUSED)');
    await postgres.start();
    expect(await stream.next('lost', 'recovered')).toMatch(/^recovered /);
    await expect.poll(async () => (await inspector.get('events/counts')).status).toBe(200);
  } finally {
    await postgres.stop();
  }
});
