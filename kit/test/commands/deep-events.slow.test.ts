import Database from 'libsql';
import { createReceiver, PermanentError } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';
import { serve } from '../http-server.js';
import { leaveToCatchUp } from '../own-inbox.js';
import { SILENT, startEndpoint, startService } from '../service.js';
import { openSqlite } from '../sqlite-file.js';

const DEEP = `{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;

/** The body of an event whose payload is nested deeper than `JSON.stringify` can write. */
function deepBody() {
  const event = exampleEvent('transfer.failed');
  const text = JSON.stringify({ ...event, payload: {} }).replace('"payload":{}', `"payload":${DEEP}`);
  return { id: event.id, text };
}

/** A file with three dead events as deliveries made them; the second is nested deeply. */
async function fill(path: string) {
  using inbox = await openSqlite(path);
  const giveUp = () => {
    throw new PermanentError('the account was closed');
  };
  const handlers = { 'transfer.failed': giveUp };
  const receive = toFetchHandler(createReceiver({ secret: SECRET, inbox, logger: SILENT, handlers }));
  const [first, deep, last] = [exampleEvent('transfer.failed'), deepBody(), exampleEvent('transfer.failed')];
  for (const body of [JSON.stringify(first), deep.text, JSON.stringify(last)]) {
    const signed = await signedRequest(Buffer.from(body), { secret: SECRET });
    const response = await receive(signed.toRequest());
    expect(await response.json()).toEqual({ outcome: 'dead' });
  }
  return { first: first.id, deep, last: last.id };
}

/** The events are as `catch-up` leaves them: what any endpoint answers counts. */
async function leaveListed(path: string): Promise<void> {
  const db = new Database(path);
  db.exec("UPDATE stablehooks_events SET source = 'pull'");
  db.close();
  using inbox = await openSqlite(path);
  await leaveToCatchUp(inbox);
}

describe.concurrent('an event that is nested deeper than JSON.stringify can write', () => {
  test('is printed by inbox show and inbox list --json', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    const { deep } = await fill(path);
    for (const json of [[], ['--json']]) {
      const { stdout, exitCode } = await run(['inbox', 'show', deep.id, '--inbox', path, ...json]);
      expect(stdout).toContain(`"payload":${DEEP}`);
      expect(exitCode).toBe(0);
    }
    const list = await run(['inbox', 'list', '--inbox', path, '--state', 'dead', '--json']);
    expect(list.stdout.trim().split('\n')).toHaveLength(3);
    expect(list.stdout).toContain(`"payload":${DEEP}`);
    expect(list.exitCode).toBe(0);
  });

  test('is sent by inbox redrive --all-dead, and so are those after it', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    const { first, deep, last } = await fill(path);
    await leaveListed(path);
    await using endpoint = await startEndpoint();
    const args = ['inbox', 'redrive', '--all-dead', '--inbox', path, '--to', endpoint.url];
    const { exitCode } = await run(args);
    expect(endpoint.handled().toSorted()).toEqual([first, deep.id, last].toSorted());
    expect(exitCode).toBe(0);
    using inbox = await openSqlite(path);
    expect(await inbox.find(deep.id)).toMatchObject({ state: 'done' });
  });

  test('is printed by events show and sent by events replay', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const { id, text } = deepBody();
    await using list = await serve((_, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(`[${text.replace('{', '{"delivered":false,')}]`);
    });
    const env = { ...service.env, STABLEHOOKS_BASE_URL: list.url };
    const show = await run(['events', 'show', id], { env });
    expect(show.stdout).toContain(`"payload":${DEEP}`);
    expect(show.exitCode).toBe(0);
    const replay = await run(['events', 'replay', id, '--to', endpoint.url], { env });
    expect(endpoint.handled()).toEqual([id]);
    expect(replay.exitCode).toBe(0);
  });

  test('is shown with its payload by the inspector', async () => {
    await using folder = await makeFolder();
    const { deep } = await fill(folder.at('app.db'));
    using inbox = await openSqlite(folder.at('app.db'));
    const inspector = createInspector({ source: fromInbox(inbox, { name: 'app' }), authorize: () => true });
    const url = `http://app.example/api/inbox/events/${deep.id}?payload=1`;
    const response = await inspector.fetch(new Request(url));
    expect(response.status).toBe(200);
    expect((await response.json()).json).toBe(deep.text);
    inspector.close();
  });
});

describe.concurrent('inbox redrive --all-dead', () => {
  test.for([
    ['received', 'was neither requeued nor sent', 'dead', 2],
    [
      'leased',
      'is requeued and was sent, but the answer is not recorded, so it can run again',
      'received',
      3,
    ],
  ] as const)('goes on after an event that the inbox cannot mark %s, and says which', async (row) => {
    const [state, says, left, sent] = row;
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    const { deep } = await fill(path);
    await leaveListed(path);
    const db = new Database(path);
    db.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON stablehooks_events
      WHEN NEW.id = '${deep.id}' AND NEW.state = '${state}' BEGIN SELECT RAISE(ABORT, 'refused here'); END`);
    db.close();
    await using endpoint = await startEndpoint();
    const args = ['inbox', 'redrive', '--all-dead', '--inbox', path, '--to', endpoint.url];
    const { stderr, exitCode } = await run(args);
    expect(stderr).toContain(`${deep.id} ${says}: The inbox failed: refused here`);
    expect(stderr).toContain('2 of 3 sent: 2 × 200 handled');
    expect(endpoint.handled()).toHaveLength(sent);
    expect(exitCode).toBe(1);
    using inbox = await openSqlite(path);
    expect(await inbox.find(deep.id)).toMatchObject({ state: left });
    expect(await inbox.list({ state: 'done', limit: 3 })).toHaveLength(2);
  });

  test('says how many events it did not try when the endpoint is not there', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    await fill(path);
    const args = ['inbox', 'redrive', '--all-dead', '--inbox', path, '--to', 'http://127.0.0.1:1/'];
    const { stderr, exitCode } = await run(args);
    expect(stderr).toContain('Not tried and unchanged: 2 events.\n');
    expect(exitCode).toBe(3);
    using inbox = await openSqlite(path);
    expect(await inbox.list({ state: 'dead', limit: 5 })).toHaveLength(3);
  });
});
