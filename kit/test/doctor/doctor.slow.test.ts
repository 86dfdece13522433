import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import express from 'express';
import { createReceiver, type Handlers, withPayload } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toNodeHandler } from 'stablehooks/node';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { makeFolder, run, SECRET, start } from '../command.js';
import { serve } from '../http-server.js';
import { openSqlite } from '../sqlite-file.js';
import { runInTerminal } from '../terminal.js';
import { examine } from './examine.js';
import { createPlainReceiver, takeOnce } from './plain-receiver.js';
import { createListener, failingOnRequest, QUIET } from './stablehooks-receiver.js';
import { actsBeforeVerify, wrong } from './wrong-receivers.js';

type Handler = NonNullable<Handlers['transfer.settled']>;

const options = { secret: SECRET, logger: QUIET };
const failing = () => createReceiver({ ...options, handlers: { 'transfer.settled': failingOnRequest } });

/** The first line, before anything is sent. */
const FOR_REAL = /^The endpoint's real handlers run on these test events, [^\n]*\n$/;

test('doctor refuses an endpoint on another machine without --yes, because no person can answer', async () => {
  const { exitCode, stdout, stderr } = await run(['doctor', 'https://hooks.example.com/webhooks']);
  expect(stderr).toMatch(/^stablehooks: hooks\.example\.com is not on this machine\. Pass --yes to send/);
  expect([exitCode, stdout]).toEqual([2, '']);
  const confirmed = await run(['doctor', 'http://endpoint.invalid/', '--yes']);
  expect(confirmed.stderr).toMatch(/^A correct receiver rejects or ignores.*\n.* cannot be reached/);
  expect(confirmed.exitCode).toBe(3);
});

test.for<readonly [typed: string, exitCode: number, isSent: boolean]>([
  ['y\n', 0, true],
  ['n\n', 1, false],
  ['\n', 1, false],
  ['\u0003', 130, false],
])(
  'doctor asks before it sends events to a host that is not local: after %j it exits with %i',
  async ([typed, exitCode, isSent]) => {
    let requests = 0;
    const server = createServer(
      createListener({ secret: SECRET, handlers: { 'transfer.settled': () => undefined } }),
    );
    server.on('request', () => {
      requests += 1;
    });
    await using running = await serve(server);
    // An address of this machine that is not known to be one.
    const url = `http://0.0.0.0:${new URL(running.url).port}/hooks`;
    const screen = await runInTerminal(['doctor', url], {
      columns: 100,
      env: { STABLEHOOKS_SECRET: SECRET },
      type: { at: `is not on this machine. Send test events? [y/N]`, text: typed },
    });
    expect(screen.exitCode, screen.rows.join('\n')).toBe(exitCode);
    expect(screen.rows.join('\n')).toContain(isSent ? 'genuine' : 'Nothing was sent.');
    expect(requests > 0).toBe(isSent);
  },
);

describe.concurrent('what doctor leaves', () => {
  /** An app with its inbox in a file, and how often its handler ran. */
  async function startApp(path: string, handler: () => void = () => undefined) {
    const ran: string[] = [];
    const inbox = await openSqlite(path);
    const receiver = createReceiver({
      ...{ ...options, inbox },
      handlers: {
        'transfer.settled': (event) => {
          ran.push(event.id);
          handler();
        },
      },
    });
    const server = await serve(toNodeHandler(receiver));
    const end = async () => {
      await server[Symbol.asyncDispose]();
      await receiver.close();
      inbox[Symbol.dispose]();
    };
    return { url: `${server.url}/hooks`, ran, inbox, [Symbol.asyncDispose]: end };
  }

  test('without --run-handlers no handler runs, nothing is stored, and status counts no refused delivery', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    {
      await using app = await startApp(path);
      const { exitCode, stdout, stderr } = await run(['doctor', app.url]);
      expect(stdout).toMatch(/\npass +genuine .* 200 ignored\n/);
      expect(stdout).toMatch(/\n15 of 15 passed\n$/);
      expect(stderr).toContain('Not checked without --run-handlers: unknown type, doubled, concurrent,');
      expect(exitCode).toBe(0);
      expect(app.ran).toEqual([]);
      expect((await app.inbox.count()).filter(({ count }) => count > 0)).toEqual([]);
    }
    const status = await run(['status', '--inbox', path]);
    expect(status.stdout).toMatch(/\nNothing to judge: no event has been processed yet\.\n$/);
    expect(status.stdout).not.toMatch(/deliver(?:y|ies) refused/);
  });

  test('--run-handlers with --inbox ends the test events that are left to run', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    await using app = await startApp(path);
    const { wrong, stderr } = await examine(app.url, ['--inbox', path]);
    expect(wrong).toMatchObject([{ name: 'failing handler', verdict: 'not shown' }]);
    expect(stderr).toMatch(/\nThe inbox contains \d+ test events\. Discarded now: 0\.\n$/);
    const failing = await startApp(folder.at('failing.db'), () => {
      throw new Error('the bank is down');
    });
    await using _ = failing;
    await examine(failing.url, ['--inbox', folder.at('failing.db')]);
    const states = (await failing.inbox.count()).filter(({ count }) => count > 0);
    expect(states.map(({ state }) => state)).toEqual(['done']);
  });

  test('--inbox of another app is a failure, even with --allow-not-shown', async () => {
    await using folder = await makeFolder();
    await using app = await startApp(folder.at('app.db'));
    (await openSqlite(folder.at('other.db')))[Symbol.dispose]();
    const doctor = (inbox: string) =>
      run(['doctor', app.url, '--run-handlers', '--allow-not-shown', '--inbox', folder.at(inbox)]);
    const other = await doctor('other.db');
    expect(other.stderr).toContain('Accepted by the endpoint, but missing from this inbox: 12 test events.');
    expect(other.exitCode).toBe(1);
    expect((await doctor('app.db')).exitCode).toBe(0);
  });

  test('a handler that swallows failures is not shown to be right', async () => {
    await using server = await serve(
      createListener({ secret: SECRET, handlers: { 'transfer.settled': () => undefined } }),
    );
    const { checks, exitCode } = await examine(`${server.url}/hooks`);
    expect(checks.find(({ name }) => name === 'failing handler')).toMatchObject({ verdict: 'not shown' });
    expect(exitCode).toBe(1);
  });

  test('a receiver of another make passes without --run-handlers, and --effects shows that nothing ran', async () => {
    await using server = await serve(createPlainReceiver(SECRET));
    const ended = await run(['doctor', `${server.url}/hooks`, '--effects', `${server.url}/effects/{id}`]);
    expect(ended.stdout).toMatch(/\npass +genuine .* 200, 0 effects\n/);
    expect(ended.exitCode).toBe(0);
  });
});

describe.concurrent('right endpoints', () => {
  test.for<readonly [string, Handler]>([
    ['a handler that never fails', () => undefined],
    [
      'a handler with a schema of the payload',
      withPayload(z.object({ amount: z.string(), tx_hash: z.string() }), () => undefined),
    ],
  ])('on a quick start with %s, only what a failure does is not shown', async ([, handler]) => {
    await using server = await serve(
      createListener({ secret: SECRET, handlers: { 'transfer.settled': handler } }),
    );
    const { exitCode, wrong } = await examine(`${server.url}/hooks`);
    expect(wrong).toMatchObject([{ name: 'failing handler', verdict: 'not shown', got: '200 handled' }]);
    expect(exitCode).toBe(1);
  });

  test('every check of doctor passes on Express', async () => {
    await using server = await serve(express().all('/hooks', toExpressHandler(failing())));
    const { exitCode, wrong, checks } = await examine(`${server.url}/hooks`);
    expect(wrong).toEqual([]);
    expect(checks).toHaveLength(20);
    expect(exitCode).toBe(0);
  });

  test('every check of doctor passes on another receiver whose effects can be counted', async () => {
    await using server = await serve(createPlainReceiver(SECRET));
    const flags = ['--effects', `${server.url}/effects/{id}`];
    const { wrong, exitCode } = await examine(`${server.url}/hooks`, flags);
    expect(wrong).toEqual([]);
    expect(exitCode).toBe(0);
  });

  test('doctor accuses a right receiver of nothing when its replies do not name outcomes', async () => {
    await using server = await serve(createPlainReceiver(SECRET));
    const { stdout, exitCode } = await run(['doctor', `${server.url}/hooks`, '--run-handlers']);
    expect(stdout).not.toContain('Failed');
    expect(stdout).toContain('The responses do not say how many times');
    expect(stdout).toContain(
      'failing handler: No handler failed. Make your handler throw when payload.doctor is',
    );
    expect(stdout).toMatch(/\n16 of 20 passed, 4 not shown\n$/);
    expect(exitCode).toBe(1);
    const allowing = await examine(`${server.url}/hooks`, ['--allow-not-shown']);
    expect(allowing.counts).toEqual({ passed: 16, failed: 0, notShown: 4 });
    expect(allowing.exitCode).toBe(0);
  });

  test('doctor passes a receiver that closes the connection on a large body and answers afterwards', async () => {
    await using server = await serve(fragile((request) => void request.socket.destroy()));
    const { checks, exitCode } = await examine(`${server.url}/hooks`);
    expect(checks.find(({ name }) => name === 'oversized')).toMatchObject({ verdict: 'pass' });
    expect(exitCode).toBe(0);
  });
});

/** A good receiver until the large body comes, to which `onLarge` is done. */
function fragile(onLarge: (request: IncomingMessage) => void): RequestListener {
  const receive = toNodeHandler(failing());
  return (request, response) =>
    Number(request.headers['content-length']) > 1_048_576 ? onLarge(request) : receive(request, response);
}

test('doctor does not pass failing handler on a receiver that closes before it, as in a rolling restart', async () => {
  let concurrent = 0;
  const receiver = createReceiver({
    ...options,
    handlers: { 'transfer.settled': () => undefined },
    onOutcome({ event }) {
      if (event?.payload['doctor'] !== 'concurrent') return;
      concurrent += 1;
      if (concurrent === 8) void receiver.close();
    },
  });
  await using server = await serve(toNodeHandler(receiver));
  const { exitCode, wrong } = await examine(`${server.url}/hooks`);
  const closed = { verdict: 'not shown', got: '503 ERR_RECEIVER_CLOSED' };
  expect(wrong).toMatchObject([
    { name: 'remembered', ...closed },
    { name: 'failing handler', ...closed },
  ]);
  expect(exitCode).toBe(1);
});

/** No reply shows that an event took effect, and doctor must not exit with 0. */
describe.concurrent('exit 0 needs evidence', () => {
  test('a receiver without handlers does not pass', async () => {
    await using server = await serve(createListener({ secret: SECRET, handlers: {} }));
    const flags = ['--type', 'transfer.failed', '--allow-not-shown'];
    const { exitCode, checks, counts } = await examine(`${server.url}/hooks`, flags);
    expect(checks[0]).toMatchObject({ verdict: 'not shown', got: '200 ignored' });
    expect(checks[0]?.fix).toMatch(/^No handler ran\. Pass --type with a type that has a handler: /);
    expect(checks).toHaveLength(20);
    expect(counts).toEqual({ passed: 6, failed: 0, notShown: 14 });
    expect(exitCode).toBe(1);
  });

  test.for(['transfer.settled', 'redeem.failed'])(
    'without --type, doctor shows every check on an app that handles only %s',
    async (type) => {
      await using server = await serve(
        createListener({ secret: SECRET, handlers: { [type]: failingOnRequest } }),
      );
      const { exitCode, wrong, checks, stderr } = await examine(`${server.url}/hooks`);
      expect(wrong).toEqual([]);
      expect(checks).toHaveLength(20);
      const note = `The endpoint ignores transfer.settled, so the test events have the type ${type}.\n`;
      expect(stderr.replace(note, '')).toMatch(FOR_REAL);
      expect(stderr.includes(note)).toBe(type !== 'transfer.settled');
      expect(exitCode).toBe(0);
    },
  );

  test('an endpoint that refuses everything with 401 or 413 passes nothing', async () => {
    for (const status of [401, 413]) {
      await using server = await serve((_, response) => void response.writeHead(status).end());
      const { exitCode, checks } = await examine(`${server.url}/hooks`);
      const passed = checks.filter(({ verdict }) => verdict === 'pass').map(({ name }) => name);
      expect({ status, passed }).toEqual({ status, passed: [] });
      expect(exitCode).toBe(1);
    }
  });

  test('a reply that only says queued does not show one effect', async () => {
    const queued: RequestListener = (request, response) =>
      request.resume().on('end', () => response.writeHead(202).end('{"outcome":"queued"}'));
    await using server = await serve(queued);
    const { exitCode, checks } = await examine(`${server.url}/hooks`);
    const verdicts = new Map(checks.map(({ name, verdict }) => [name, verdict]));
    expect(['doubled', 'concurrent', 'failing handler'].map((name) => verdicts.get(name))).toEqual(
      Array(3).fill('not shown'),
    );
    expect(exitCode).toBe(1);
  });

  test('a count that is not a number is not counted as an effect', async () => {
    await using effects = await serve((_, response) => void response.end('true'));
    await using server = await serve(createListener({ secret: SECRET }));
    const { exitCode, stderr } = await examine(`${server.url}/hooks`, ['--effects', `${effects.url}/{id}`]);
    expect(stderr).toContain('--effects must return 200 and the number of times');
    expect(exitCode).toBe(2);
  });
});

test.for([
  ['runs each delivery', wrong(() => ({ take: (id, ledger) => ledger.apply(id) }))],
  [
    'answers before the work',
    wrong(() => ({ take: (id, ledger) => void setImmediate(takeOnce, id, ledger) })),
  ],
] as const)(
  'doctor does not pass an endpoint that %s, which the replies do not show',
  async ([, receiver]) => {
    await using server = await serve(receiver(SECRET));
    const { exitCode, wrong } = await examine(`${server.url}/hooks`);
    expect(wrong.map(({ verdict }) => verdict)).toEqual(Array(4).fill('not shown'));
    expect(exitCode).toBe(1);
  },
);

test('doctor prints a table and the fixes, and neither the secret nor colours into a pipe', async () => {
  await using server = await serve(wrong(() => ({ authentic: () => true }))(SECRET));
  const { stdout, stderr, exitCode } = await run(['doctor', `${server.url}/hooks`]);
  expect(stdout).toMatch(/^VERDICT +CHECK +EXPECTED +TIME +GOT\n/);
  expect(stdout).toMatch(/\nfail +forged +401 or 403 +\d+ ms +200\n/);
  const rows = stdout.slice(0, stdout.indexOf('\n\n')).split('\n');
  expect(rows.filter((row) => row.length > 80)).toEqual([]);
  expect(stdout).toContain('forged, tampered: Verify the signature over the raw bytes before anything else');
  expect(stdout + stderr).not.toContain(SECRET);
  expect(stdout).not.toContain('\u001b');
  expect(exitCode).toBe(1);
});

test('doctor is exit 3 when the endpoint cannot be reached, and prints its URL without the query, which can hold a token', async () => {
  const { exitCode, stdout, stderr } = await run([
    'doctor',
    'http://127.0.0.1:1/hooks?token=tok_in_query#part',
  ]);
  expect(stderr).toMatch(/ .*hooks\?… cannot be reached: .*\(ECONNREFUSED\)/);
  expect(stdout + stderr).not.toMatch(/tok_in_query|#part/);
  expect(exitCode).toBe(3);
});

describe.concurrent('an endpoint that closes connections', () => {
  test('doctor fails an endpoint that the oversized body ends, and says that nothing listens any more', async () => {
    const http = createServer(
      fragile(() => {
        http.close();
        http.closeAllConnections();
      }),
    );
    await using server = await serve(http);
    const { checks, exitCode } = await examine(`${server.url}/hooks`);
    expect(checks.find(({ name }) => name === 'oversized')).toMatchObject({
      verdict: 'fail',
      got: expect.stringMatching(/\((ECONNRESET|EPIPE)\), nothing is listening there \(ECONNREFUSED\)$/),
    });
    const gone = checks.find(({ name }) => name === 'pretty-printed');
    expect(gone?.fix).toContain('Nothing is listening any more');
    expect(checks.find(({ name }) => name === 'no secrets')).toMatchObject({
      verdict: 'not shown',
      fix: gone?.fix,
    });
    expect(exitCode).toBe(1);
  });

  test('doctor stopped by Ctrl-C does not count the interrupted check', async () => {
    let large = () => {};
    const arrived = new Promise<void>((resolve) => {
      large = resolve;
    });
    await using server = await serve(fragile(large));
    const command = start(['doctor', `${server.url}/hooks`, '--run-handlers']);
    await arrived;
    // Rows appear as they are known.
    expect(await command.printed('wrong method')).toMatch(/\nVERDICT .*\npass +genuine /);
    command.interrupt();
    const { stdout, exitCode } = await command.ended;
    expect(stdout).not.toContain('oversized');
    expect(stdout).toContain('6 of 20 passed, 14 not shown');
    expect(exitCode).toBe(130);
  });
});

describe.concurrent('--effects', () => {
  test('doctor fails each check whose delivery must have no effect on a receiver that acts before it verifies', async () => {
    await using server = await serve(actsBeforeVerify(SECRET));
    const flags = ['--timeout', '60s', '--effects', `${server.url}/effects/{id}`];
    const { exitCode, wrong } = await examine(`${server.url}/hooks`, flags);
    const refused = 'The endpoint acted on an event although it refused the signature';
    expect(wrong.map(({ name, verdict, got, fix }) => [name, verdict, got, fix?.split('. ')[0]])).toEqual([
      ...['unsigned', 'short signature', 'forged', 'tampered'].map((name) => [
        name,
        'fail',
        expect.stringMatching(/401, 1 effect$/),
        refused,
      ]),
      [
        'oversized',
        'fail',
        '413, 1 effect',
        'The endpoint acted on an event that it refused because of its size',
      ],
      [
        'unknown type',
        'fail',
        '200, 1 effect',
        'The endpoint acted on an event of a type that no release knows',
      ],
      ['cut off', 'fail', expect.stringMatching(/, 1 effect$/), 'The endpoint acted on half a body'],
    ]);
    expect(exitCode).toBe(1);
  });

  test('doctor reports an unreachable --effects before the other checks', async () => {
    await using server = await serve(toNodeHandler(failing()));
    const ended = await examine(`${server.url}/hooks`, ['--effects', 'http://127.0.0.1:1/{id}']);
    expect(ended.checks).toEqual([]);
    expect(ended.stderr).toMatch(/\nstablehooks: --effects cannot be reached: .*ECONNREFUSED.*\n$/);
    expect(ended.exitCode).toBe(3);
  });

  test('doctor prints its results when --effects fails later', async () => {
    const countOf = (url = '') => (url.endsWith('_genuine') ? '1' : url.endsWith('_doubled') ? 'oops' : '0');
    await using effects = await serve(({ url }, response) => void response.end(countOf(url)));
    await using server = await serve(toNodeHandler(failing()));
    const ended = await examine(`${server.url}/hooks`, ['--effects', `${effects.url}/{id}`]);
    expect(ended.checks.at(-1)?.name).toBe('cut off');
    expect(ended.stderr).toMatch(/\nstablehooks: --effects must return 200 and the number of times/);
    expect(ended.exitCode).toBe(2);
  });
});

test('doctor needs the secret', async () => {
  const { exitCode, stderr } = await run(['doctor', 'http://127.0.0.1:1/'], {
    env: { STABLEHOOKS_SECRET: undefined },
  });
  expect(stderr).toContain('Set STABLEHOOKS_SECRET, or pass --secret-file FILE');
  expect(exitCode).toBe(2);
});
