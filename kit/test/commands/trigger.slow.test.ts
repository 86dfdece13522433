import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, start } from '../command.js';
import { makeCertificate } from '../doctor/certificate.js';
import { findClosedUrl, serve } from '../http-server.js';
import { startEndpoint, startService } from '../service.js';

test('trigger prints the same rows in each run with three endpoints', async () => {
  await using first = await startEndpoint();
  await using second = await startEndpoint();
  await using third = await startEndpoint();
  const urls = [first, second, third].map(({ url }) => url);
  await using service = await startService({ endpoints: urls.map((url) => ({ url })) });
  for (let round = 0; round < 3; round++) {
    const { stdout, exitCode } = await run(['trigger', 'redeem.failed', '--duplicate'], service);
    const rows = stdout
      .trim()
      .split('\n')
      .map((line) => line.split(/ {2,}/));
    expect(rows.map(([, , answer, , url]) => `${answer} ${url}`)).toEqual([
      ...urls.map((url) => `200 handled ${url}`),
      ...urls.map((url) => `200 duplicate ${url}`),
    ]);
    expect(new Set(rows.map(([, id]) => id)).size).toBe(1);
    expect(exitCode).toBe(0);
  }
});

describe.concurrent('trigger', () => {
  test.for([
    [401, 0, /^$/],
    [403, 0, /^$/],
    [404, 1, /404 does not show that the endpoint refused the signature: .* Check the path of --to\./],
    [500, 1, /500 does not show that the endpoint refused the signature/],
    [302, 1, /302 does not show that the endpoint refused the signature/],
    [200, 1, /The endpoint accepted a wrong signature \(200\)/],
    [200, 1, /The endpoint accepted a wrong signature \(200\)/, '--tamper'],
  ] as const)('trigger --forge takes %i as exit %i', async ([status, code, says, flag = '--forge']) => {
    await using site = await serve((_, response) => void response.writeHead(status).end());
    const { stderr, exitCode } = await run(['trigger', 'redeem.failed', '--to', site.url, flag]);
    expect(stderr).toMatch(says);
    expect(exitCode).toBe(code);
  });

  test('trigger waits for every endpoint of the sandbox, and fails if one of them fails', async () => {
    await using good = await startEndpoint();
    await using bad = await startEndpoint(() => {
      throw new Error('no');
    });
    const endpoints = [{ url: good.url }, { url: bad.url }];
    await using service = await startService({ endpoints });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed', '--duplicate'], service);
    const lines = stdout.trim().split('\n');
    const answers = lines.map((line) => / (\d{3} \w+) .* (http\S+)$/.exec(line)?.slice(1));
    expect(answers.map((answer) => answer?.[1])).toEqual([good.url, bad.url, good.url, bad.url]);
    expect(answers.map((answer) => answer?.[0]?.startsWith('200'))).toEqual([true, false, true, false]);
    expect(stderr).toContain('4 of 4 sent: ');
    expect(exitCode).toBe(1);
  });

  test.for([
    ['drop', 'lost (fault drop)', '1 lost: the sandbox has the fault drop', false],
    ['cut', 'lost (fault cut)', '1 lost: the sandbox has the fault cut', false],
    [
      'reset',
      'answer lost (fault reset)',
      '1 answer lost: the sandbox dropped the answer (fault reset)',
      true,
    ],
    ...(['corruptSignature', 'reserialise'] as const).map(
      (fault) =>
        [
          fault,
          `401 ERR_SIGNATURE_MISMATCH (fault ${fault})`,
          `1 refused, as it must be: the sandbox made the signature wrong (fault ${fault})`,
          false,
        ] as const,
    ),
  ] as const)(
    'trigger is exit 1 and names the fault when the sandbox has the fault %s',
    async ([fault, answer, says, isHandled]) => {
      await using endpoint = await startEndpoint();
      const endpoints = [{ url: endpoint.url }];
      await using service = await startService({ endpoints, faults: { [fault]: { next: 1 } } });
      const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
      expect(stdout).toContain(answer);
      expect(stderr).toContain(says);
      if (isHandled) expect(endpoint.outcomes[0]?.kind).toBe('handled');
      expect(exitCode).toBe(1);
    },
  );

  test('an endpoint that accepts a signature which the sandbox made wrong is exit 1', async () => {
    await using site = await serve((request, response) => {
      request.resume().on('end', () => response.end());
    });
    await using service = await startService({
      endpoints: [{ url: site.url }],
      faults: { corruptSignature: { next: 1 } },
    });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
    expect(stdout).toContain('200 (fault corruptSignature)');
    expect(stderr).toContain('1 accepted although the sandbox made the signature wrong');
    expect(exitCode).toBe(1);
  });

  test.for([
    [
      'closes the connection',
      () => serve((request) => void request.socket.destroy()),
      'the connection was cut (UND_ERR_SOCKET)',
      'See the log of the other side. If its port expects TLS',
    ],
    [
      'has a certificate that is not trusted',
      () => serve(createServer(makeCertificate())),
      'its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT)',
      'Set NODE_EXTRA_CA_CERTS to the PEM file',
    ],
    [
      'does not listen',
      async () => ({ url: await findClosedUrl(), async [Symbol.asyncDispose]() {} }),
      'nothing listens there (ECONNREFUSED)',
      'Check that it is started, and the port.',
    ],
  ] as const)(
    'trigger says that the endpoint of the sandbox %s, and is exit 3',
    async ([name, startSite, what, fix]) => {
      await using site = await startSite();
      const url = name.includes('certificate') ? site.url.replace('http:', 'https:') : site.url;
      await using service = await startService({ endpoints: [{ url }] });
      const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
      expect(stdout).toContain(what);
      expect(stderr).toContain(fix);
      expect(stderr).toContain('The sandbox makes this connection');
      expect(exitCode).toBe(3);
    },
  );

  test('trigger is exit 3 when the sandbox ends before its attempt', async () => {
    let arrived = () => {};
    const held = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    await using site = await serve(() => arrived());
    const service = await startService({ endpoints: [{ url: site.url }] });
    const command = start(['trigger', 'redeem.failed', '--timeout', '10m'], service);
    await held;
    await service.sandbox.close();
    const { stderr, exitCode } = await command.ended;
    expect(stderr).toMatch(/^stablehooks: http\S+ (stopped reporting what it delivers|cannot be reached)/);
    expect(exitCode).toBe(3);
  });

  test('trigger through the sandbox is stopped by Ctrl-C, and says how many events were sent', async () => {
    let arrived = () => {};
    const held = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    await using site = await serve(() => arrived());
    await using service = await startService({ endpoints: [{ url: site.url }] });
    const command = start(['trigger', 'redeem.failed', '--timeout', '10m'], service);
    await held;
    command.interrupt();
    const { stderr, exitCode } = await command.ended;
    expect(stderr).toContain('0 of 1 sent');
    expect(exitCode).toBe(130);
  });

  test('trigger --to sends an example event with the values of --set', async () => {
    await using endpoint = await startEndpoint();
    const set = ['--set', 'payload.amount=10.50', '--set', 'payload.tries:=3', '--set', 'id=evt_mine'];
    const { stdout, exitCode } = await run(['trigger', 'transfer.settled', '--to', endpoint.url, ...set]);
    expect(stdout).toMatch(/^transfer\.settled {2}evt_mine {2}200 handled {2}\d+ ms\n$/);
    expect(endpoint.outcomes[0]?.event?.payload).toMatchObject({ amount: '10.50', tries: 3 });
    expect(exitCode).toBe(0);
  });

  test('trigger --payload sends the payload of a file', async () => {
    await using folder = await makeFolder();
    await using endpoint = await startEndpoint();
    await writeFile(folder.at('payload.json'), '{"note":"Zoë"}');
    await run(['trigger', 'redeem.failed', '--to', endpoint.url, '--payload', folder.at('payload.json')]);
    expect(endpoint.outcomes[0]?.event?.payload).toEqual({ note: 'Zoë' });
  });

  test.for([
    ['--forge', 'hex'],
    ['--tamper', 'base64'],
  ] as const)('trigger %s succeeds when the endpoint refuses the delivery', async ([flag, encoding]) => {
    await using endpoint = await startEndpoint();
    const args = ['trigger', 'transfer.settled', '--to', endpoint.url, flag, '--encoding', encoding];
    const { stdout, exitCode } = await run(args);
    expect(stdout).toContain('401 ERR_SIGNATURE_MISMATCH');
    expect(exitCode).toBe(0);
  });

  test('trigger sends many events at a rate, each twice, and prints a summary', async () => {
    await using endpoint = await startEndpoint();
    const many = ['--count', '20', '--rate', '200', '--duplicate', '--json'];
    const { stdout, stderr, exitCode } = await run([
      'trigger',
      'accept.confirmed',
      '--to',
      endpoint.url,
      ...many,
    ]);
    const rows = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(rows.filter(({ outcome }) => outcome === 'handled')).toHaveLength(20);
    expect(rows.filter(({ outcome }) => outcome === 'duplicate')).toHaveLength(20);
    expect(stderr).toContain('40 of 40 sent: ');
    expect(stderr).not.toContain('\r');
    expect(exitCode).toBe(0);
  });

  test('trigger has the sandbox fire an event, and prints how the endpoint answered', async () => {
    await using endpoint = await startEndpoint();
    await using service = await startService({ endpoints: [{ url: endpoint.url }] });
    const args = ['trigger', 'redeem.completed', '--set', 'payload.amount=7.00', '--duplicate'];
    const { stdout, exitCode } = await run(args, service);
    const [event] = service.sandbox.events();
    expect(stdout).toMatch(
      new RegExp(`^redeem\\.completed {2}${event?.id} {2}200 handled .*\n.* 200 duplicate`),
    );
    expect(event?.payload['amount']).toBe('7.00');
    expect(exitCode).toBe(0);
  });

  test('trigger says how to run an event now that waits for its retry time', async () => {
    const reply = JSON.stringify({ outcome: 'busy', code: 'ERR_EVENT_NOT_DUE' });
    await using site = await serve((_, response) => void response.writeHead(503).end(reply));
    const args = ['trigger', 'redeem.failed', '--to', site.url, '--set', 'id=evt_mine', '--duplicate'];
    const { stdout, stderr, exitCode } = await run(args);
    expect(stdout).toContain('503 ERR_EVENT_NOT_DUE');
    expect(stderr).toContain(
      'evt_mine failed before and waits for its retry time. `stablehooks inbox requeue --inbox INBOX evt_mine` makes it due now',
    );
    expect(exitCode).toBe(1);
  });

  test.for(['dead', 'ignored', 'parked'])(
    'trigger is exit 1 when the endpoint answers 200 and its reply says that the event is %s',
    async (outcome) => {
      const reply = JSON.stringify({ outcome });
      await using site = await serve((_, response) => void response.end(reply));
      const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed', '--to', site.url]);
      expect(stdout).toContain(`  200 ${outcome}  `);
      expect(stderr).toMatch(new RegExp(`^1 ${outcome}: the endpoint `));
      expect(exitCode).toBe(1);
    },
  );

  test('trigger says that the sandbox has no endpoint', async () => {
    await using service = await startService();
    const { stderr, exitCode } = await run(['trigger', 'redeem.completed'], service);
    expect(stderr).toContain('The sandbox has no endpoint to deliver to. Start it with --to URL');
    expect(exitCode).toBe(2);
  });

  test('control characters in the reply of an endpoint are not printed', async () => {
    const reply = JSON.stringify({ outcome: '\u001b[2J' });
    await using site = await serve((_, response) => void response.end(reply));
    const { stdout, stderr } = await run(['trigger', 'redeem.failed', '--to', site.url, '--count', '2']);
    expect(stderr).toContain('2 × 200 ·[2J');
    expect(stdout + stderr).not.toContain('\u001b');
  });

  test('trigger --duplicate redelivers the same event after a timeout', async () => {
    const held: (() => void)[] = [];
    await using endpoint = await startEndpoint(() => new Promise<void>((resolve) => held.push(resolve)));
    await using service = await startService({ endpoints: [{ url: endpoint.url }] });
    const args = ['trigger', 'redeem.completed', '--duplicate', '--timeout', '5s'];
    const { stdout, exitCode } = await run(args, service);
    expect(stdout).toMatch(/^redeem\.completed {2}(\S+) {2}no answer in .*\nredeem\.completed {2}\1 {2}503 /);
    expect(service.sandbox.events()).toHaveLength(1);
    expect(service.sandbox.deliveries()).toHaveLength(2);
    expect(exitCode).toBe(1);
    for (const release of held) release();
  });

  test.for([
    ['a page', 200, '<!doctype html>', 2, /^stablehooks: http\S+ is not a sandbox, /],
    ['other JSON', 200, '{"a":1}', 2, /^stablehooks: http\S+ is not a sandbox, /],
    ['a failure', 500, 'down\u001b[2J', 3, /^stablehooks: The sandbox answered 500: down·\[2J\n$/],
  ] as const)(
    'trigger says that the base URL is not a working sandbox: %s',
    async ([, status, body, code, says]) => {
      await using site = await serve((_, response) => void response.writeHead(status).end(body));
      const env = { STABLEHOOKS_BASE_URL: site.url, STABLEHOOKS_TOKEN: 'x' };
      const { stderr, exitCode } = await run(['trigger', 'redeem.completed'], { env });
      expect(stderr).toMatch(says);
      expect(exitCode).toBe(code);
    },
  );

  test('trigger stopped by Ctrl-C prints how many events were sent', async () => {
    await using endpoint = await startEndpoint();
    const command = start([
      'trigger',
      'transfer.settled',
      '--to',
      endpoint.url,
      '--count',
      '1000',
      '--rate',
      '50',
    ]);
    await command.printed('200 handled');
    command.interrupt();
    const { stdout, stderr, exitCode } = await command.ended;
    const sent = stdout.trim().split('\n').length;
    expect(stderr).toContain(`${sent} of 1000 sent: ${sent} × 200 handled`);
    expect(endpoint.handled()).toHaveLength(sent);
    expect(exitCode).toBe(130);
  });
});
