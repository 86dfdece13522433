import Database from 'libsql';
import { createReceiver, PermanentError } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';
import { leaveToCatchUp } from '../own-inbox.js';
import { SILENT, startEndpoint } from '../service.js';
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
