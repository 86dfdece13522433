/** Exit code 0 must be impossible when what a command reports did not happen. */
import { symlink, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { type Ended, makeFolder, run, start } from '../command.js';
import { serve } from '../http-server.js';
import { startEndpoint, startService, TOKEN } from '../service.js';
import { openSqlite } from '../sqlite-file.js';

const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url));

const reply =
  (status: number, body = '', headers: Readonly<Record<string, string>> = {}): RequestListener =>
  (request, response) => {
    request.resume();
    request.on('end', () => response.writeHead(status, headers).end(body));
  };
const json = { 'content-type': 'application/json' };

/** Exit 1, 2 or 3 for a reason that the command knows. */
function expectFailure({ exitCode, stdout, stderr }: Ended): void {
  expect([1, 2, 3], stdout + stderr).toContain(exitCode);
  expect(stderr).not.toMatch(/Unexpected error: |Cannot find module/);
}

/** A command that was cut off has not shown what its end would have said. */
describe.concurrent('a reader that closes the pipe', () => {
  test.for([
    ['events', 'replay', '--all', '--to', 'URL'],
    ['trigger', 'transfer.settled', '--to', 'URL', '--count', '200'],
    ['doctor', 'URL'],
    ['listen', '--to', 'URL', '--since', '1h'],
  ])('stablehooks %j is not a success', async (words) => {
    await using endpoint = await serve(reply(500));
    await using service = await startService();
    for (let count = 0; count < 40; count++) service.sandbox.emit('transfer.settled');
    const command = start(
      words.map((word) => word.replace('URL', endpoint.url)),
      service,
    );
    await command.printed('500');
    command.closeOutput();
    expect([1, 130]).toContain((await command.ended).exitCode);
  });
});

/** Commands that call the service. */
const ASKERS: readonly (readonly string[])[] = [
  ['trigger', 'transfer.settled'],
  ['listen', '--to', 'URL'],
  ['events', 'list'],
  ['events', 'show', 'evt_1'],
  ['events', 'replay', '--all', '--to', 'URL'],
  ['catch-up', '--to', 'URL', '--inbox', 'new.db', '--since', '1h'],
  ['reconcile', '--ledger', 'ledger.csv', '--inbox', 'app.db', '--since', '1h', '--amount-column', 'amount'],
  ['wallets', 'create', '--agent', 'a', '--chain', 'base', '--per-tx', '1', '--daily', '2'],
  ['wallets', 'limits', 'wal_1', '--per-tx', '1', '--daily', '2'],
];

/** How a failure of the service ends: `bad-input.slow.test.ts`. */
describe.concurrent('a service that answers nothing of use', () => {
  for (const words of ASKERS) {
    test(`stablehooks ${words.join(' ')} does not exit with 0 when the service answers another JSON`, async () => {
      await using service = await serve(reply(200, '{}', json));
      await using endpoint = await startEndpoint();
      await using folder = await makeFolder();
      // The drivers of the inboxes are looked for in the current folder.
      await symlink(MODULES, folder.at('node_modules'));
      await writeFile(folder.at('ledger.csv'), 'event_id,amount\n');
      (await openSqlite(folder.at('app.db')))[Symbol.dispose]();
      const env = { STABLEHOOKS_BASE_URL: service.url, STABLEHOOKS_TOKEN: TOKEN };
      const args = words.map((word) => word.replace('URL', endpoint.url));
      expectFailure(await run(args, { env, cwd: folder.path }));
    });
  }
});
