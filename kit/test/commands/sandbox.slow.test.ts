import { createSandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, start } from '../command.js';
import { serve } from '../http-server.js';
import { pasted, TOKEN } from '../service.js';

describe.concurrent('sandbox', () => {
  test('sandbox shows every endpoint, also those of the state file, and which one an attempt went to', async () => {
    await using folder = await makeFolder();
    const endpoints = ['http://127.0.0.1:1/one', 'http://127.0.0.1:1/two', 'http://127.0.0.1:1/three'];
    const state = ['--port', '0', '--state', folder.at('state.json'), '--max-attempts', '1'];
    const flags = endpoints.slice(0, 2).flatMap((url) => ['--to', url]);
    const first = start(['sandbox', ...state, ...flags]);
    expect(await first.printed('Ctrl-C ends it.')).toContain(
      `Events go to ${endpoints[0]}\nEvents go to ${endpoints[1]}\n`,
    );
    first.interrupt();
    await first.ended;
    const second = start(['sandbox', ...state, '--to', endpoints[2] ?? ''], {
      env: { STABLEHOOKS_TOKEN: TOKEN },
    });
    const output = await second.printed('Ctrl-C ends it.');
    expect(output).toContain(
      [
        `Events go to ${endpoints[0]} (from the state file)`,
        `Events go to ${endpoints[1]} (from the state file)`,
        `Events go to ${endpoints[2]}\n`,
      ].join('\n'),
    );
    const env = { ...pasted(output), STABLEHOOKS_TOKEN: TOKEN };
    await run(['trigger', 'accept.confirmed'], { env });
    // No retry: --max-attempts is 1.
    await second.printed(/(?:[\s\S]*delivery\.exhausted){3}/);
    for (const url of endpoints) {
      await second.printed(new RegExp(`attempt 1 {2}evt_\\w+ {2}no answer {2}\\d+ ms {2}${url} {2}\\S`));
    }
    second.interrupt();
    expect((await second.ended).exitCode).toBe(130);
    const other = await run(['sandbox', ...state, '--to', endpoints[0] ?? '', '--encoding', 'base64']);
    expect(other.stderr).toMatch(
      /--encoding has no effect on http:\S+one: the state file has it with hex\. Leave out --encoding, or use another --state\./,
    );
    expect(other.exitCode).toBe(2);
  });

  test('sandbox sends nothing when it refuses to sign otherwise than the state file says', async () => {
    await using folder = await makeFolder();
    let arrived = 0;
    await using site = await serve((_, response) => {
      arrived += 1;
      response.writeHead(500).end();
    });
    const path = folder.at('state.json');
    const faults = { delay: 1, delayMs: 3_600_000 };
    const first = createSandbox({ stateFile: path, faults, endpoints: [{ url: site.url }] });
    for (let fired = 0; fired < 10; fired++) first.emit('accept.confirmed');
    await first.close();
    expect(first.deliveries({ state: 'pending' })).toHaveLength(10);
    for (const flags of [
      ['--encoding', 'base64'],
      ['--header', 'X-Other'],
    ]) {
      const to = ['sandbox', '--port', '0', '--state', path, '--to', site.url];
      const { stderr, exitCode } = await run([...to, ...flags]);
      expect(stderr).toContain(`Leave out ${flags[0]}, or use another --state.`);
      expect(exitCode).toBe(2);
    }
    expect(arrived).toBe(0);
  });

  test('sandbox warns of the default token on an address that other machines reach, and only then', async () => {
    const said = async (flags: readonly string[], env: Readonly<Record<string, string>>) => {
      const command = start(['sandbox', '--port', '0', ...flags], { env });
      await command.printed('Ctrl-C ends it.');
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
    expect(warned).toMatch(/^Warning: every machine that reaches 0\.0\.0\.0 can use this sandbox.*\n/);
    expect(warned?.trim().split('\n')).toHaveLength(1);
    for (const stderr of silent) expect(stderr).not.toContain('Warning');
  });

  test('sandbox prints no query of an endpoint, which can hold a token', async () => {
    await using folder = await makeFolder();
    await using site = await serve((_, response) => void response.end());
    const url = (token: string) => `${site.url}/hooks?token=${token}#part`;
    const state = ['--port', '0', '--state', folder.at('state.json')];
    const to = ['first-secret', 'second-secret'].flatMap((token) => ['--to', url(token)]);
    const shown = `${site.url}/hooks?…`;
    for (const format of [[], ['--json']]) {
      const command = start(['sandbox', ...state, ...to, ...format]);
      const output = await command.printed(/Ctrl-C ends it\.|sandbox\.listening.*\n/);
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
    const other = await run(['sandbox', ...state, ...to, '--encoding', 'base64']);
    expect(other.stderr).toContain(`--encoding has no effect on ${shown}: the state file has it with hex.`);
    expect(other.stderr).not.toContain('-secret');
  });

  test('sandbox has the time limit, the waits, the movement time and the balance of its flags', async () => {
    const flags = [
      ...['--timeout', '5s', '--max-attempts', '2', '--retry-base', '1ms', '--movement-time', '3h'],
      ...['--balance', '7.25', '--token-expiry', '0ms', '--date-skew', '-2m', '--list-filter-after-cap'],
    ];
    const command = start(['sandbox', '--port', '0', '--to', 'http://127.0.0.1:1/', ...flags]);
    const { STABLEHOOKS_BASE_URL: url, STABLEHOOKS_TOKEN: token } = pasted(
      await command.printed('Ctrl-C ends it.'),
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
