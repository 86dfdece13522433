/** `stablehooks trigger`: signs and sends by itself, or has a sandbox fire the event. */
import { writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET, start } from './command.js';
import { serve } from './http-server.js';
import { startEndpoint, startService } from './service.js';

describe.concurrent('trigger', () => {
  test('sends an event of its own making, with what is set in it', async () => {
    await using endpoint = await startEndpoint();
    const set = ['--set', 'payload.amount=10.50', '--set', 'payload.tries:=3', '--set', 'id=evt_mine'];
    const { stdout, exitCode } = await run(['trigger', 'transfer.settled', '--to', endpoint.url, ...set]);
    expect(stdout).toMatch(/^transfer\.settled {2}evt_mine {2}200 handled {2}\d+ ms\n$/);
    expect(endpoint.outcomes[0]?.event?.payload).toMatchObject({ amount: '10.50', tries: 3 });
    expect(exitCode).toBe(0);
  });

  test('sends a payload from a file', async () => {
    await using folder = await makeFolder();
    await using endpoint = await startEndpoint();
    await writeFile(folder.at('payload.json'), '{"note":"Zoë"}');
    await run(['trigger', 'redeem.failed', '--to', endpoint.url, '--payload', folder.at('payload.json')]);
    expect(endpoint.outcomes[0]?.event?.payload).toEqual({ note: 'Zoë' });
  });

  test.for([
    ['--forge', 'hex'],
    ['--tamper', 'base64'],
  ] as const)('%s is good when it is refused', async ([flag, encoding]) => {
    await using endpoint = await startEndpoint();
    const args = ['trigger', 'transfer.settled', '--to', endpoint.url, flag, '--encoding', encoding];
    const { stdout, exitCode } = await run(args);
    expect(stdout).toContain('401 ERR_SIGNATURE_MISMATCH');
    expect(exitCode).toBe(0);
  });

  test('sends many at a rate, each twice, and sums up', async () => {
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

  test('has the sandbox fire it, and tells how its delivery went', async () => {
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

  test('says so when the sandbox has nowhere to deliver to', async () => {
    await using service = await startService();
    const { stderr, exitCode } = await run(['trigger', 'redeem.completed'], service);
    expect(stderr).toContain('The sandbox has no endpoint to deliver to. Start it with --forward-to URL');
    expect(exitCode).toBe(2);
  });

  test('what an endpoint says of itself cannot steer the terminal', async () => {
    const reply = JSON.stringify({ outcome: '\u001b[2J' });
    await using site = await serve((_, response) => void response.end(reply));
    const { stdout, stderr } = await run(['trigger', 'redeem.failed', '--to', site.url, '--count', '2']);
    expect(stderr).toContain('2 × 200 ·[2J');
    expect(stdout + stderr).not.toContain('\u001b');
  });

  test('fires the same event again after a silence, and no second one', async () => {
    const held: (() => void)[] = [];
    await using endpoint = await startEndpoint(() => new Promise<void>((resolve) => held.push(resolve)));
    await using service = await startService({ endpoints: [{ url: endpoint.url }] });
    const args = ['trigger', 'redeem.completed', '--duplicate', '--timeout', '200ms'];
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
  ] as const)('says what is at the base URL when it is %s', async ([, status, body, code, says]) => {
    await using site = await serve((_, response) => void response.writeHead(status).end(body));
    const env = { STABLEHOOKS_BASE_URL: site.url, STABLEHOOKS_TOKEN: 'x' };
    const { stderr, exitCode } = await run(['trigger', 'redeem.completed'], { env });
    expect(stderr).toMatch(says);
    expect(exitCode).toBe(code);
  });

  test('stopped by Ctrl-C, it says how many were sent', async () => {
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

  test('the process list never shows the secret', async () => {
    const { stderr, exitCode } = await run(['trigger', 'transfer.settled', '--secret', SECRET]);
    expect(stderr).toContain(
      'shows in the process list: set STABLEHOOKS_SECRET, or pass --secret-file FILE.',
    );
    expect(stderr).not.toContain(SECRET);
    expect(exitCode).toBe(2);
  });
});
