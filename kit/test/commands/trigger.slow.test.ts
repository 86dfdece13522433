import { writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, start } from '../command.js';
import { findClosedUrl, serve } from '../http-server.js';
import { startEndpoint, startService } from '../service.js';

describe.concurrent('trigger', () => {
  test('trigger --duplicate is exit 1 if no answer shows that the handler ran once', async () => {
    await using site = await serve((_, response) => response.writeHead(200).end());
    const { stderr, exitCode } = await run(['trigger', 'redeem.failed', '--to', site.url, '--duplicate']);
    expect(stderr).toContain('This does not show that the handler ran only once');
    expect(exitCode).toBe(1);
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
    [401, /^1 × 401: The response does not say why\. .*Run `stablehooks doctor URL` to find the cause\.$/m],
    [307, /^1 × 307: The endpoint redirects \(307\).* Deliver to the URL of the receiver itself/m],
    [500, /^1 × 500: The endpoint responded with 500\. The endpoint's log may say why\.$/m],
  ] as const)('trigger says what to do about the answer %i', async ([status, says]) => {
    await using site = await serve((_, response) => response.writeHead(status, { location: '/login' }).end());
    const { stderr, exitCode } = await run(['trigger', 'redeem.failed', '--to', site.url]);
    expect(stderr).toMatch(says);
    expect(exitCode).toBe(1);
  });

  test.for([
    [
      'drop',
      'lost (fault drop)',
      '1 × lost: the attempt did not reach the handler because of the sandbox fault drop',
      false,
    ],
    [
      'cut',
      'lost (fault cut)',
      '1 × lost: the attempt did not reach the handler because of the sandbox fault cut',
      false,
    ],
    [
      'reset',
      'response lost (fault reset)',
      '1 × response lost: the sandbox dropped the response (fault reset)',
      true,
    ],
    ...(['corruptSignature', 'reserialise'] as const).map(
      (fault) =>
        [
          fault,
          `401 ERR_SIGNATURE_MISMATCH (fault ${fault})`,
          `1 × correctly rejected: the sandbox sent an invalid signature (fault ${fault})`,
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

  test('trigger says that the endpoint of the sandbox does not listen, and is exit 3', async () => {
    await using service = await startService({ endpoints: [{ url: await findClosedUrl() }] });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
    expect(stdout).toContain('nothing is listening there (ECONNREFUSED)');
    expect(stderr).toContain('Check that the server is running and that the port is correct.');
    expect(stderr).toContain('The sandbox opens this connection');
    expect(exitCode).toBe(3);
  });

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

  test('trigger sends many events, each twice, and prints a summary', async () => {
    await using endpoint = await startEndpoint();
    const many = ['--count', '20', '--duplicate', '--json'];
    const args = ['trigger', 'accept.confirmed', '--to', endpoint.url, ...many];
    const { stdout, stderr, exitCode } = await run(args);
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
    expect(stderr).toContain('To make it due now, run `stablehooks inbox requeue --inbox INBOX evt_mine`.');
    expect(exitCode).toBe(1);
  });

  test('trigger says that the sandbox has no endpoint', async () => {
    await using service = await startService();
    const { stderr, exitCode } = await run(['trigger', 'redeem.completed'], service);
    expect(stderr).toContain('The sandbox has no endpoint to deliver to. Start it with --to URL');
    expect(exitCode).toBe(2);
  });

  test('trigger --duplicate redelivers the same event after a timeout', async () => {
    const held: (() => void)[] = [];
    await using endpoint = await startEndpoint(() => new Promise<void>((resolve) => held.push(resolve)));
    await using service = await startService({ endpoints: [{ url: endpoint.url }] });
    const args = ['trigger', 'redeem.completed', '--duplicate', '--timeout', '5s'];
    const { stdout, exitCode } = await run(args, service);
    expect(stdout).toMatch(
      /^redeem\.completed {2}(\S+) {2}no response in .*\nredeem\.completed {2}\1 {2}503 /,
    );
    expect(service.sandbox.events()).toHaveLength(1);
    expect(service.sandbox.deliveries()).toHaveLength(2);
    expect(exitCode).toBe(1);
    for (const release of held) release();
  });

  test.for([
    ['a page', 200, '<!doctype html>', 2, /^stablehooks: http\S+ is not a sandbox, /],
    ['other JSON', 200, '{"a":1}', 2, /^stablehooks: http\S+ is not a sandbox, /],
    ['a failure', 500, 'down\u001b[2J', 3, /^stablehooks: The sandbox responded with 500: down·\[2J\n$/],
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
});
