/** Exit code 0 must be impossible when what a command reports did not happen. */
import { symlink, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { fileURLToPath } from 'node:url';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { type Ended, makeFolder, run, SECRET, start } from '../command.js';
import { findClosedUrl, serve } from '../http-server.js';
import { leaveToCatchUp } from '../own-inbox.js';
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
const cut: RequestListener = (request) => request.socket.destroy();

/** Endpoints where no event takes effect. Which other answers show no effect: `delivery.test.ts`. */
const ENDPOINTS: Readonly<Record<string, RequestListener | undefined>> = {
  'does not listen': undefined,
  'cuts connections': cut,
  'answers 500': reply(500),
  'has no handler': reply(200, '{"outcome":"ignored"}', json),
};

/** Services that answer nothing that a command can use. How a failure of the service ends: `bad-input.slow.test.ts`. */
const SERVICES: Readonly<Record<string, RequestListener | undefined>> = {
  'does not listen': undefined,
  'answers another JSON': reply(200, '{}', json),
};

async function startServer(handler: RequestListener | undefined): Promise<{ url: string } & AsyncDisposable> {
  if (handler !== undefined) return serve(createServer(handler));
  return { url: await findClosedUrl(), [Symbol.asyncDispose]: async () => undefined };
}

/** A folder with a body, an inbox of `catch-up` with one dead event, and an empty ledger. */
async function makeWorld() {
  const folder = await makeFolder();
  // The drivers of the inboxes are looked for in the current folder.
  await symlink(MODULES, folder.at('node_modules'));
  const event = exampleEvent('transfer.settled');
  await writeFile(folder.at('body.json'), JSON.stringify(event));
  await writeFile(folder.at('ledger.csv'), 'event_id,amount\n');
  using inbox = await openSqlite(folder.at('app.db'));
  await leaveToCatchUp(inbox);
  const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'pull' });
  if (claim.state === 'claimed')
    await inbox.fail(claim.lease, { error: 'the account was closed', retryAfterMs: null });
  return { folder, event };
}

/** Exit 1, 2 or 3 for a reason that the command knows. */
function expectFailure({ exitCode, stdout, stderr }: Ended): void {
  expect([1, 2, 3], stdout + stderr).toContain(exitCode);
  expect(stderr).not.toMatch(/Unexpected: |Cannot find module/);
}

/** What sends an event to an endpoint. `URL` is the endpoint, `ID` the dead event of the inbox. */
const SENDERS: readonly (readonly string[])[] = [
  ['trigger', 'transfer.settled', '--to', 'URL', '--timeout', '5s'],
  ['trigger', 'transfer.settled', '--timeout', '5s'],
  ['events', 'replay', '--all', '--to', 'URL', '--timeout', '5s'],
  ['catch-up', '--to', 'URL', '--inbox', 'new.db', '--since', '1h', '--timeout', '5s'],
  ['inbox', 'redrive', 'ID', '--inbox', 'app.db', '--to', 'URL', '--timeout', '5s'],
  ['doctor', 'URL', '--timeout', '5s'],
];

describe.concurrent('an endpoint where every event takes effect', () => {
  for (const words of SENDERS) {
    test(`stablehooks ${words.join(' ')} exits with 0`, async () => {
      await using endpoint = await startEndpoint();
      await using service = await startService({ endpoints: [{ url: endpoint.url }] });
      service.sandbox.emit('transfer.settled');
      const { folder, event } = await makeWorld();
      await using _ = folder;
      const args = words.map((word) => word.replace('URL', endpoint.url).replace(/^ID$/, event.id));
      if (words[0] === 'doctor') args.push('--allow-not-shown');
      const { exitCode, stdout, stderr } = await run(args, { env: service.env, cwd: folder.path });
      expect(exitCode, stdout + stderr).toBe(0);
    });
  }
});

describe.concurrent('an endpoint where no event takes effect', () => {
  for (const [what, handler] of Object.entries(ENDPOINTS)) {
    for (const words of SENDERS) {
      test(`stablehooks ${words.join(' ')} does not exit with 0 when the endpoint ${what}`, async () => {
        await using endpoint = await startServer(handler);
        const url = `${endpoint.url}/hooks`;
        await using service = await startService({ endpoints: [{ url }], maxAttempts: 1 });
        service.sandbox.emit('transfer.settled');
        const { folder, event } = await makeWorld();
        await using _ = folder;
        const args = words.map((word) => word.replace('URL', url).replace(/^ID$/, event.id));
        const ended = await run(args, { env: service.env, cwd: folder.path });
        expectFailure(ended);
        // An event that did not take effect must not look done to the next run.
        if (args.includes('--inbox')) expectFailure(await run(args, { env: service.env, cwd: folder.path }));
      });
    }
  }
});

/** A command that was cut off has not shown what its end would have said. */
describe.concurrent('a reader that closes the pipe', () => {
  test.for([
    ['events', 'replay', '--all', '--to', 'URL'],
    ['trigger', 'transfer.settled', '--to', 'URL', '--count', '200'],
    ['doctor', 'URL'],
    ['listen', '--to', 'URL', '--since', '1h'],
  ])('stablehooks %j is no success', async (words) => {
    await using endpoint = await startServer(reply(500));
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

/** What asks the service. */
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
  ['types', '--since', '30d', '--out', 'payloads.ts'],
];

describe.concurrent('a service that answers nothing of use', () => {
  for (const [what, handler] of Object.entries(SERVICES)) {
    for (const words of ASKERS) {
      test(`stablehooks ${words.join(' ')} does not exit with 0 when the service ${what}`, async () => {
        await using service = await startServer(handler);
        await using endpoint = await startEndpoint();
        const { folder } = await makeWorld();
        await using _ = folder;
        const env = { STABLEHOOKS_BASE_URL: service.url, STABLEHOOKS_TOKEN: TOKEN };
        const args = words.map((word) => word.replace('URL', endpoint.url));
        expectFailure(await run(args, { env, cwd: folder.path }));
      });
    }
  }
});

/** What reads or changes files only, where it cannot do what it says. */
const LOCAL: readonly (readonly string[])[] = [
  ['verify', '--body', 'body.json', '--signature', '00'.repeat(32)],
  ['sign', '--body', 'no-such.json'],
  ['inbox', 'stats', '--inbox', 'no-such.db'],
  ['inbox', 'list', '--inbox', 'no-such.db'],
  ['inbox', 'show', 'evt_unknown', '--inbox', 'app.db'],
  ['inbox', 'requeue', 'evt_unknown', '--inbox', 'app.db'],
  ['inbox', 'prune', '--older-than', '1ms', '--inbox', 'app.db'],
  ['gaps', 'list', '--inbox', 'app.db'],
  ['gaps', 'acknowledge', '--inbox', 'app.db', '--from', '2026-01-01', '--by', 'me', '--reason', 'checked'],
  ['inspect', '--inbox', 'no-such.db'],
  ['types', '--from', 'no-such.json', '--out', 'payloads.ts'],
  ['sandbox', '--port', '0', '--state', 'no-such-folder/state'],
  ['completion', 'tcsh'],
];

describe.concurrent('files', () => {
  test.for(LOCAL)('stablehooks %j does not exit with 0', async (words) => {
    const { folder } = await makeWorld();
    await using _ = folder;
    const ended = await run(words, { cwd: folder.path });
    expectFailure(ended);
    expect(ended.stderr + ended.stdout).not.toContain(SECRET);
  });
});

describe.concurrent('Ctrl-C', () => {
  test('sandbox and listen exit with 130', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const running = [
      { command: start(['sandbox', '--port', '0']), ready: /Ctrl-C ends it/ },
      { command: start(['listen', '--to', endpoint.url], { env: service.env }), ready: /Ctrl-C ends it/ },
    ];
    for (const { command, ready } of running) {
      await command.printed(ready);
      command.interrupt();
      expect((await command.ended).exitCode).toBe(130);
    }
  });
});

test('each command of the help is in one of these tables', async () => {
  const listed = new Set([...SENDERS, ...ASKERS, ...LOCAL].map((words) => words.slice(0, 2).join(' ')));
  const names = async (words: readonly string[]) => {
    const { stdout } = await run([...words, '--help']);
    const [, block = ''] = /^Commands:\n((?: .*\n)*)/m.exec(stdout) ?? [];
    return [...block.matchAll(/^ {2}([\w-]+)/gm)]
      .map(([, name = '']) => name)
      .filter((name) => name !== 'help');
  };
  for (const command of await names([])) {
    const children = await names([command]);
    const all = children.length > 0 ? children.map((child) => `${command} ${child}`) : [command];
    for (const each of all)
      expect(
        [...listed].some((words) => words.startsWith(each)),
        each,
      ).toBe(true);
  }
});
