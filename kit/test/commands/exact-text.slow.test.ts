/** Events are printed and sent from their text: `JSON.parse` rounds large numbers, drops zeros and names that occur twice. */
import { text } from 'node:stream/consumers';
import { createReceiver, sign } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';
import { serve } from '../http-server.js';
import { SILENT } from '../service.js';
import { openSqlite } from '../sqlite-file.js';
import { runInTerminal } from '../terminal.js';

const BODY = `{
  "id": "evt_exact", "type": "transfer.settled", "delivered": true,
  "created_at": "${new Date().toISOString()}",
  "payload": { "n": 1.50, "big": 12345678901234567890, "note": "a\\"b", "twice": 1, "twice": 2, "empty": {} }
}
`;
/** The parts that a value of JSON does not keep. */
const PARTS = [/"n": ?1\.50,/, /"big": ?12345678901234567890,/, /"twice": ?1,\s*"twice": ?2/];

function expectExact(output: string): void {
  for (const part of PARTS) expect(output).toMatch(part);
}

describe.concurrent('the exact text of an event', () => {
  test('inbox show and inbox list print the numbers and names that were signed', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    using inbox = await openSqlite(path);
    const receiver = createReceiver({
      ...{ secret: SECRET, inbox, logger: SILENT },
      handlers: { 'transfer.settled': () => undefined },
    });
    await using app = await serve(toNodeHandler(receiver));
    const body = Buffer.from(BODY);
    const headers = { 'x-service-signature': await sign(body, { secret: SECRET }) };
    expect((await fetch(app.url, { method: 'POST', headers, body })).status).toBe(200);

    for (const args of [
      ['show', 'evt_exact'],
      ['show', 'evt_exact', '--json'],
      ['list', '--json'],
    ]) {
      const { stdout } = await run(['inbox', ...args, '--inbox', path]);
      expectExact(stdout);
      expect(JSON.parse(stdout)).toMatchObject({ id: 'evt_exact', state: 'done', event: JSON.parse(BODY) });
      if (args.includes('--json')) expect(stdout.trim().split('\n')).toHaveLength(1);
    }
    const { rows } = await runInTerminal(['inbox', 'show', 'evt_exact', '--inbox', path], { columns: 80 });
    expectExact(rows.join('\n'));
    expect(JSON.parse(rows.join('\n'))).toMatchObject({ id: 'evt_exact' });
    // With its line breaks and spaces, so that `stablehooks verify` accepts it.
    expect((await run(['inbox', 'show', 'evt_exact', '--body', '--inbox', path])).stdout).toBe(BODY);
  });

  test('events list, show and replay print and send the text of the list', async () => {
    await using service = await serve((_, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(`[${BODY}]`);
    });
    const received: string[] = [];
    await using endpoint = await serve(async (request, response) => {
      received.push(await text(request));
      response.end();
    });
    const env = { STABLEHOOKS_BASE_URL: service.url, STABLEHOOKS_TOKEN: 'tok_exact' };
    for (const args of [
      ['list', '--json'],
      ['show', 'evt_exact'],
      ['show', 'evt_exact', '--json'],
    ]) {
      const { stdout } = await run(['events', ...args], { env });
      expectExact(stdout);
      expect(JSON.parse(stdout)).toEqual(JSON.parse(BODY));
    }
    await run(['events', 'replay', 'evt_exact', '--to', endpoint.url], { env });
    expect(received).toEqual([BODY.trim()]);
  });
});
