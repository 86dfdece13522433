import { describe, expect, test } from 'vitest';
import { run, start } from '../command.js';
import { serve } from '../http-server.js';
import { pasted, TOKEN } from '../service.js';

describe.concurrent('sandbox', () => {
  test('sandbox shows every endpoint, and which one an attempt went to', async () => {
    const endpoints = ['http://127.0.0.1:1/one', 'http://127.0.0.1:1/two'];
    const to = endpoints.flatMap((url) => ['--to', url]);
    const command = start(['sandbox', '--port', '0', '--max-attempts', '1', ...to]);
    const output = await command.printed('Press Ctrl-C to stop.');
    expect(output).toContain(`Events go to ${endpoints[0]}\nEvents go to ${endpoints[1]}\n`);
    await run(['trigger', 'accept.confirmed'], { env: pasted(output) });
    // No retry: --max-attempts is 1.
    await command.printed(/(?:[\s\S]*delivery\.exhausted){2}/);
    for (const url of endpoints) {
      await command.printed(new RegExp(`attempt 1 {2}evt_\\w+ {2}no response {2}\\d+ ms {2}${url} {2}\\S`));
    }
    command.interrupt();
    expect((await command.ended).exitCode).toBe(130);
  });

  test('sandbox warns of the default token on an address that other machines reach, and only then', async () => {
    const said = async (flags: readonly string[], env: Readonly<Record<string, string>>) => {
      const command = start(['sandbox', '--port', '0', ...flags], { env });
      await command.printed('Press Ctrl-C to stop.');
      command.interrupt();
      return (await command.ended).stderr;
    };
    const open = ['--host', '0.0.0.0'];
    const [warned, ...silent] = await Promise.all([
      said(open, {}),
      said(open, { STABLEHOOKS_TOKEN: TOKEN }),
      said([], {}),
      said(['--host', 'localhost'], {}),
    ]);
    expect(warned).toMatch(/^Warning: every machine that can reach 0\.0\.0\.0 can use this sandbox.*\n/);
    expect(warned?.trim().split('\n')).toHaveLength(1);
    for (const stderr of silent) expect(stderr).not.toContain('Warning');
  });

  test('sandbox prints no query of an endpoint, which can hold a token', async () => {
    await using site = await serve((_, response) => void response.end());
    const url = (token: string) => `${site.url}/hooks?token=${token}#part`;
    const to = ['first-secret', 'second-secret'].flatMap((token) => ['--to', url(token)]);
    const shown = `${site.url}/hooks?…`;
    for (const format of [[], ['--json']]) {
      const command = start(['sandbox', '--port', '0', ...to, ...format]);
      const output = await command.printed(/Press Ctrl-C to stop\.|sandbox\.listening.*\n/);
      const [, base = ''] = /(http:\S+?:\d+)"?[,\n]/.exec(output) ?? [];
      const post = (path: string, body: object) =>
        fetch(`${base}/sandbox/${path}`, {
          method: 'POST',
          headers: { authorization: 'Bearer sandbox-token', 'content-type': 'application/json' },
          body: JSON.stringify(body),
        });
      const added = (await (await post('endpoints', { url: url('third-secret') })).json()) as { id: string };
      await post(`endpoints/${added.id}/secret`, { secret: 'rotated' });
      const env = { STABLEHOOKS_BASE_URL: base, STABLEHOOKS_TOKEN: 'sandbox-token' };
      const fired = await run(['trigger', 'accept.confirmed', ...format], { env });
      await command.printed(/(?:[\s\S]*(?:attempt 1 |delivery\.delivered)){3}/);
      await fetch(`${base}/sandbox/endpoints/${added.id}`, {
        method: 'DELETE',
        headers: { authorization: 'Bearer sandbox-token' },
      });
      await command.printed('endpoint.removed');
      command.interrupt();
      const { stdout, stderr } = await command.ended;
      expect(stdout).toContain(format.length === 0 ? `Events go to ${shown}\n` : `"url":"${shown}"`);
      for (const kind of ['endpoint.added', 'endpoint.secret_rotated']) {
        expect(stdout.split('\n').find((line) => line.includes(kind))).toContain(shown);
      }
      expect(fired.stdout).toContain(shown);
      expect(stdout + stderr + fired.stdout + fired.stderr).not.toContain('-secret');
    }
  });

  test('sandbox has the time limit, the waits, the movement time and the balance of its flags', async () => {
    const flags = [
      ...['--timeout', '5s', '--max-attempts', '2', '--retry-base', '1ms', '--movement-time', '3h'],
      ...['--balance', '7.25', '--token-expiry', '0ms', '--date-skew', '-2m', '--list-filter-after-cap'],
    ];
    const command = start(['sandbox', '--port', '0', '--to', 'http://127.0.0.1:1/', ...flags]);
    const { STABLEHOOKS_BASE_URL: url, STABLEHOOKS_TOKEN: token } = pasted(
      await command.printed('Press Ctrl-C to stop.'),
    );
    const ask = async (path: string, body?: unknown) => {
      const response = await fetch(`${url}${path}`, {
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
      });
      return { response, json: response.status === 204 ? undefined : await response.json() };
    };
    const expired = await ask('/v1/webhooks/events');
    expect(expired.response.status).toBe(401);
    const skewMs = Date.parse(expired.response.headers.get('date') ?? '') - Date.now();
    expect(skewMs).toBeLessThan(-60_000);
    expect((await ask('/sandbox/faults')).json).toMatchObject({
      dateSkewMs: -120_000,
      tokenExpiryMs: 0,
      listFilterAfterCap: true,
    });
    await fetch(`${url}/sandbox/faults`, { method: 'DELETE', headers: { authorization: `Bearer ${token}` } });
    const wallet = { agentId: 'a', chain: 'base', limits: { perTx: '1', daily: '1' } };
    expect((await ask('/v1/wallets', wallet)).json).toMatchObject({ balance: '7.25' });
    expect((await ask('/sandbox/accepts', {})).json).toMatchObject({ state: 'pending' });
    await ask('/sandbox/events', { type: 'redeem.failed' });
    await command.printed(/attempt 2[\s\S]*delivery\.exhausted/);
    command.interrupt();
    await command.ended;
  });
});
