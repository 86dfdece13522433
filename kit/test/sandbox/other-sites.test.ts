/** The reach of a web site into a sandbox that listens. Each refused request differs in one thing from one that is answered. */
import { createSandbox, type ListenOptions } from 'stablehooks-kit/sandbox';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Sent, send } from '../inspector/http.js';

/** Every request has the token, because everybody knows the default one. */
async function startSandbox(options: ListenOptions = {}) {
  const sandbox = createSandbox();
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen(0, options);
  const { port } = new URL(url);
  const ask = (path: string, { headers, ...sent }: Sent = {}) =>
    send(`${url}${path}`, {
      ...sent,
      headers: { authorization: `Bearer ${sandbox.token}`, ...headers },
    });
  return { sandbox, port, ask };
}

type Started = Awaited<ReturnType<typeof startSandbox>>;

const JSON_HEADERS = { 'content-type': 'application/json' };
const READS = [
  ...['/health', '/openapi.json', '/v1/webhooks/events', '/sandbox/attempts', '/sandbox/endpoints'],
  '/sandbox/stream',
];
const CHANGES = [
  ['/v1/wallets', { agentId: 'a', chain: 'base', limits: { perTx: '1', daily: '1' } }],
  ['/sandbox/events', { type: 'transfer.settled' }],
  ['/sandbox/endpoints', { url: 'http://127.0.0.1:1/' }],
] as const;

/** The statuses of the answers to all of them. */
async function statusesWith(headers: Readonly<Record<string, string>>, { ask }: Started) {
  const found: number[] = [];
  for (const path of READS) found.push((await ask(path, { headers })).status);
  for (const [path, json] of CHANGES) {
    const sent = { method: 'POST', body: JSON.stringify(json), headers: { ...headers, ...JSON_HEADERS } };
    found.push((await ask(path, sent)).status);
  }
  return found;
}

const ANSWERED = [...READS.map(() => 200), ...CHANGES.map(() => 201)];
const REFUSED = ANSWERED.map(() => 403);

/** The headers of a page of the site after its name was made to resolve to this machine: it is of the same origin. */
const samePage = (host: string) => [
  { host },
  { host, origin: `http://${host}` },
  { host, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' },
];

describe('a sandbox that listens', () => {
  test('answers no name that a web site had resolve to this machine (DNS rebinding), and says what to do', async () => {
    const started = await startSandbox();
    const { ask, sandbox, port } = started;
    const names = ['evil.example', '127.0.0.1.evil.example', 'localhost.evil.example', 'rebound.localhost'];
    const hosts = names.flatMap((name) => [name, `${name}:${port}`]);
    for (const headers of hosts.flatMap(samePage)) {
      expect(await statusesWith(headers, started), JSON.stringify(headers)).toEqual(REFUSED);
    }
    expect([sandbox.events(), sandbox.wallets.list(), sandbox.endpoints.list()]).toEqual([[], [], []]);
    const { headers, text } = await ask('/sandbox/events', { headers: { host: `evil.example:${port}` } });
    expect(headers['content-type']).toBe('application/problem+json');
    expect(JSON.parse(text)).toMatchObject({
      code: 'ERR_SANDBOX_HOST',
      detail:
        'This sandbox does not accept requests for the host evil.example. To allow that name, pass --allow-host evil.example, or pass `allowedHosts` to sandbox.listen.',
    });
  });

  test('answers to the names of this machine and to every address, also at a port that is mapped to its own', async () => {
    const started = await startSandbox({ hostname: '0.0.0.0' });
    const names = ['localhost', 'LOCALHOST', '127.0.0.1', '[::1]', '0.0.0.0', '192.168.1.7', '[fe80::1]'];
    for (const host of names.flatMap((name) => [name, `${name}:${started.port}`, `${name}:1`])) {
      expect(await statusesWith({ host }, started), host).toEqual(ANSWERED);
    }
  });

  test('answers to the name that it listens on and to allowedHosts, and to no name below them', async () => {
    // A name and no address: the resolver of the system makes 127.0.0.1 of it.
    const started = await startSandbox({
      hostname: '127.1',
      allowedHosts: ['sandbox', 'Host.Docker.internal'],
    });
    const { port } = started;
    for (const name of ['127.1', 'sandbox', 'SANDBOX', 'host.docker.internal']) {
      for (const host of [name, `${name}:${port}`]) {
        expect(await statusesWith({ host }, started), host).toEqual(ANSWERED);
      }
    }
    for (const name of ['127.2', 'a.sandbox', 'sandbox.example', 'docker.internal', 'hostXdocker.internal']) {
      expect(await statusesWith({ host: `${name}:${port}` }, started), name).toEqual(REFUSED);
    }
  });

  test('refuses the pages of other sites and of other ports of this machine', async () => {
    const started = await startSandbox();
    const own = `http://127.0.0.1:${started.port}`;
    for (const origin of ['https://evil.example', 'http://127.0.0.1:1', 'http://0.0.0.0:1', 'null']) {
      expect(await statusesWith({ origin }, started), origin).toEqual(REFUSED);
    }
    for (const site of ['cross-site', 'same-site']) {
      const headers = { 'sec-fetch-site': site, 'sec-fetch-mode': 'no-cors' };
      expect(await statusesWith(headers, started), site).toEqual(REFUSED);
    }
    expect(await started.ask('/health', { headers: { origin: 'https://evil.example' } })).toMatchObject({
      text: expect.stringContaining('ERR_SANDBOX_OTHER_SITE'),
    });
    expect(started.sandbox.events()).toEqual([]);
    expect(await statusesWith({ origin: own, 'sec-fetch-site': 'same-origin' }, started)).toEqual(ANSWERED);
  });

  test.for([
    [{ allowedHosts: ['http://sandbox'] }, /`allowedHosts\.0` must be a host name without a scheme or port/],
    [{ allowedHosts: ['sandbox:4010'] }, /`allowedHosts\.0` must be a host name without a scheme or port/],
    [{ allowedHosts: 'sandbox' }, /`allowedHosts` must be a list of host names/],
    [{ allowHosts: ['sandbox'] }, /unknown option `allowHosts`\. Valid options are .*\ballowedHosts\b/],
    [{ hostname: '' }, /`hostname` must not be empty/],
    [{ page: 'index.html' }, /`page` must be a function/],
  ] as const)('refuses options that make no sense: %j', async ([options, says]) => {
    const sandbox = createSandbox();
    onTestFinished(() => sandbox.close());
    const listening = sandbox.listen(0, options as unknown as ListenOptions);
    await expect(listening).rejects.toThrow(says);
    await expect(listening).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  });
});

test('sandbox.fetch answers in this process, whatever the host of the request is', async () => {
  const sandbox = createSandbox();
  for (const host of ['service.test', 'evil.example', 'localhost:4010']) {
    const headers = { authorization: `Bearer ${sandbox.token}`, host };
    const answer = await sandbox.fetch(new Request(`http://${host}/v1/webhooks/events`, { headers }));
    expect(answer.status, host).toBe(200);
  }
});
