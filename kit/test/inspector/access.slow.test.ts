/** Who can read and act, over HTTP. Each refused request differs in one thing from one that is answered. */
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { describe, expect, test, vi } from 'vitest';
import { createLocalInspector, serveInspector } from '../../src/inspector/local-server.js';
import { serve } from '../http-server.js';
import { fail } from '../inbox-states.js';
import { type Sent, send, signIn } from './http.js';

const EVENT = exampleEvent('transfer.settled');

async function fillInbox() {
  const inbox = memoryInbox();
  await fail(inbox, EVENT);
  return inbox;
}

/** The inspector of a tool, and the requests of a page that is signed in. */
async function startTool() {
  const inbox = await fillInbox();
  const server = await serveInspector(fromInbox(inbox, { name: 'tool' }), { port: 0 });
  const session = await signIn(server.url);
  return {
    ...session,
    inbox,
    printed: server.url,
    requeue: {
      method: 'POST',
      body: JSON.stringify({ filter: { ids: [EVENT.id] } }),
      headers: { 'content-type': JSON_TYPE },
    },
    [Symbol.asyncDispose]: () => server.close(),
  };
}

const JSON_TYPE = 'application/json';
const PATHS = [
  ...['/', '/api/session', '/api/stream', '/api/events/counts', '/api/events?state=dead'],
  ...[`/api/events/${EVENT.id}`, '/api/overview', '/api/coverage', '/api/nothing', '/assets/none.js'],
];
const DATA = PATHS.filter((path) => path.startsWith('/api/') && path !== '/api/nothing');
const STYLES = ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"];

describe('the inspector of a tool', () => {
  test('exchanges the token of its URL for a cookie that scripts and other sites cannot use', async () => {
    await using tool = await startTool();
    const page = await send(tool.printed);
    expect(page.status).toBe(200);
    expect(page.headers['set-cookie']).toEqual([
      expect.stringMatching(/^stablehooks_inspector_\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/),
    ]);
    expect(page.text).not.toContain(new URL(tool.printed).searchParams.get('token'));
    const again = await send(`${tool.url}/`, tool);
    expect(again.status).toBe(200);
    expect(again.headers['set-cookie']).toBeUndefined();
  });

  test('answers data with the cookie, and nothing without it or with another one', async () => {
    await using tool = await startTool();
    await using other = await startTool();
    const port = new URL(tool.url).port;
    const [, session = ''] = other.cookie.split('=');
    for (const path of DATA) {
      const read = async (sent?: Sent) => (await send(`${tool.url}${path}`, sent)).status;
      expect(await read(tool), path).toBe(200);
      expect(await read(), path).toBe(401);
      const wrong = { headers: { cookie: `stablehooks_inspector_${port}=${session}` } };
      expect(await read(wrong), path).toBe(401);
    }
    const token = (value: string) => send(`${tool.url}/?token=${value}`);
    expect((await token(new URL(other.printed).searchParams.get('token') ?? '')).status).toBe(401);
    expect((await token('')).status).toBe(401);
  });

  test('answers only requests to a name of this machine at its port', async () => {
    await using tool = await startTool();
    const { port } = new URL(tool.url);
    const statusAt = async (host: string) =>
      (await send(`${tool.url}/api/session`, { headers: { ...tool.headers, host } })).status;
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`]) {
      expect(await statusAt(host), host).toBe(200);
    }
    const rebound = ['attacker.example', `attacker.example:${port}`, `127.0.0.1.attacker.example:${port}`];
    for (const host of [...rebound, '127.0.0.1', `127.0.0.1:${Number(port) + 1}`, `0.0.0.0:${port}`]) {
      expect(await statusAt(host), host).toBe(403);
    }
    // The token does not help a name that was rebound, either.
    expect((await send(tool.printed, { headers: { host: `attacker.example:${port}` } })).status).toBe(403);
  });

  test('answers only this machine, whatever else its server listens on', async () => {
    const inspector = createLocalInspector(fromInbox(await fillInbox(), { name: 'tool' }));
    const statusFrom = async (remoteAddress: string) => {
      const bindings = { incoming: { socket: { remoteAddress } } } as unknown as HttpBindings;
      const printed = inspector.urlAt('http://0.0.0.0:4010');
      const request = new Request(printed, { headers: { host: '127.0.0.1:4010' } });
      return (await inspector.fetch(request, bindings)).status;
    };
    for (const address of ['127.0.0.1', '127.8.0.1', '::1', '::ffff:127.0.0.1']) {
      expect(await statusFrom(address), address).toBe(200);
    }
    for (const address of ['192.168.1.7', '::ffff:192.168.1.7', '::127.0.0.1', 'fe80::1', '10.127.0.1']) {
      expect(await statusFrom(address), address).toBe(403);
    }
    inspector.close();
  });

  test('refuses every route to other sites and other ports of this machine', async () => {
    await using tool = await startTool();
    for (const path of PATHS) {
      const statusFrom = async (headers: Readonly<Record<string, string>>) =>
        (await send(`${tool.url}${path}`, { headers: { ...tool.headers, ...headers } })).status;
      const good = await statusFrom({ origin: tool.url, 'sec-fetch-site': 'same-origin' });
      expect([200, 404], path).toContain(good);
      for (const origin of ['https://attacker.example', 'http://127.0.0.1:1', 'null']) {
        expect(await statusFrom({ origin }), path).toBe(403);
      }
      for (const site of ['cross-site', 'same-site']) {
        expect(await statusFrom({ 'sec-fetch-site': site, 'sec-fetch-mode': 'no-cors' }), path).toBe(403);
      }
      const frame = {
        'sec-fetch-site': 'cross-site',
        'sec-fetch-mode': 'navigate',
        'sec-fetch-dest': 'iframe',
      };
      expect(await statusFrom(frame), path).toBe(403);
    }
  });

  test('acts only with the cookie and with the header of this run', async () => {
    await using tool = await startTool();
    await using other = await startTool();
    const act = async (headers: Readonly<Record<string, string>>, name = 'requeue') =>
      (
        await send(`${tool.url}/api/actions/${name}`, {
          ...tool.requeue,
          headers: { ...tool.requeue.headers, ...headers },
        })
      ).status;
    const { cookie } = tool;
    expect(await act({ cookie })).toBe(403);
    expect(await act({ cookie, 'x-inspector-token': other.headers['x-inspector-token'] })).toBe(403);
    expect(await act({ 'x-inspector-token': tool.headers['x-inspector-token'] })).toBe(401);
    expect(await act({ ...tool.headers, origin: 'https://attacker.example' })).toBe(403);
    expect(await act(tool.headers, 'advance-clock')).toBe(403);
    expect(await act(tool.headers, 'constructor')).toBe(403);
    expect(await tool.inbox.find(EVENT.id)).toMatchObject({ state: 'dead' });
    // The token of the printed URL opens the page, and does not act.
    const query = await send(`${tool.url}/api/actions/requeue${new URL(tool.printed).search}`, {
      ...tool.requeue,
      headers: { ...tool.requeue.headers, 'x-inspector-token': tool.headers['x-inspector-token'] },
    });
    expect(query.status).toBe(401);
    expect(await tool.inbox.find(EVENT.id)).toMatchObject({ state: 'dead' });

    expect(await act(tool.headers)).toBe(200);
    expect(await tool.inbox.find(EVENT.id)).toMatchObject({ state: 'received' });
    // Only the first of the good requests changed the event.
    const second = await send(`${tool.url}/api/actions/requeue`, {
      ...tool.requeue,
      headers: { ...tool.requeue.headers, ...tool.headers },
    });
    expect(JSON.parse(second.text)).toMatchObject({ matched: 1, eligible: 0, changed: 0 });
  });

  test('refuses a body that is of another type, too large or not the input of the action', async () => {
    await using tool = await startTool();
    const act = async (sent: Sent, headers: Readonly<Record<string, string>> = {}) =>
      (
        await send(`${tool.url}/api/actions/requeue`, {
          ...tool.requeue,
          ...sent,
          headers: { ...tool.requeue.headers, ...tool.headers, ...headers },
        })
      ).status;
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      expect(await act({}, { 'content-type': type }), type).toBe(415);
    }
    expect(await act({ body: `{"filter":{"ids":["${'x'.repeat(3_000_000)}"]}}` })).toBe(413);
    for (const body of [
      '',
      '{"filter":',
      '[]',
      'null',
      '{}',
      '{"filter":{"ids":[7]}}',
      '{"filter":{"ids":[""]}}',
    ]) {
      expect(await act({ body }), body).toBe(400);
    }
    expect(await act({ method: 'PUT' })).toBe(404);
    expect(await tool.inbox.find(EVENT.id)).toMatchObject({ state: 'dead' });
    expect(await act({})).toBe(200);
  });

  test('sends its policies with every answer, and no answer has a token but the session', async () => {
    await using tool = await startTool();
    const answers = [
      ...(await Promise.all(
        PATHS.map(async (path) => [path, await send(`${tool.url}${path}`, tool)] as const),
      )),
      ['refused', await send(`${tool.url}/api/session`)] as const,
      ['rebound', await send(`${tool.url}/`, { headers: { host: 'attacker.example' } })] as const,
      ['too large', await send(`${tool.url}/api/actions/requeue`, { method: 'POST', ...tool })] as const,
    ];
    const secrets = [
      new URL(tool.printed).searchParams.get('token') ?? '',
      ...tool.cookie.split('=').slice(1),
    ];
    for (const [what, { headers, text }] of answers) {
      for (const style of STYLES) expect(headers['content-security-policy'], what).toContain(style);
      expect(headers['content-security-policy'], what).not.toContain('unsafe');
      expect(headers, what).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-resource-policy': 'same-origin',
        'cache-control': 'no-store',
      });
      expect(headers['access-control-allow-origin'], what).toBeUndefined();
      for (const secret of secrets) expect(text, what).not.toContain(secret);
      if (what !== '/api/session') expect(text, what).not.toContain(tool.headers['x-inspector-token']);
    }
  });
});

/** The headers of the actions of a page of an app. */
async function openSession(url: string, sent?: string) {
  const session = await send(`${url}/api/session`, { headers: { ...(sent && { cookie: sent }) } });
  const [cookie = ''] = String(session.headers['set-cookie']).split(';');
  const { actionToken } = JSON.parse(session.text);
  return { cookie, 'x-inspector-token': String(actionToken) };
}

const requeue = (url: string, headers: Readonly<Record<string, string>>) =>
  send(`${url}/api/actions/requeue`, {
    method: 'POST',
    headers: { 'content-type': JSON_TYPE, ...headers },
    body: JSON.stringify({ filter: { ids: [EVENT.id] } }),
  });

describe('the inspector of an app', () => {
  async function startApp(authorize: (request: Request) => unknown, basePath = '/ops/hooks') {
    const inspector = createInspector({
      source: fromInbox(await fillInbox(), { name: 'app' }),
      actions: ['requeue'],
      basePath,
      authorize: authorize as (request: Request) => boolean,
    });
    const server = await serve(getRequestListener(inspector.fetch));
    return {
      url: `${server.url}${basePath}`,
      async [Symbol.asyncDispose]() {
        inspector.close();
        await server[Symbol.asyncDispose]();
      },
    };
  }

  test.for([true, Promise.resolve(true)])('admits a request when authorize gives %s', async (answer) => {
    await using app = await startApp(() => answer);
    for (const path of ['/', '/api/session', '/api/events/counts', '/api/stream']) {
      expect((await send(`${app.url}${path}`)).status, path).toBe(200);
    }
  });

  test.for([false, undefined, null, 1, 'yes', {}, Promise.resolve({ user: 'ada' })])(
    'refuses every route when authorize gives %s',
    async (answer) => {
      await using app = await startApp(() => answer);
      for (const path of PATHS) expect((await send(`${app.url}${path}`)).status, path).toBe(403);
      const action = await send(`${app.url}/api/actions/requeue`, { method: 'POST' });
      expect(action.status).toBe(403);
    },
  );

  test('refuses every route when authorize throws, and does not tell why', async () => {
    using log = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    await using app = await startApp(() => {
      throw new Error('no session in postgres://app:hunter2@db');
    });
    for (const path of PATHS) {
      const answer = await send(`${app.url}${path}`);
      expect(answer.status, path).toBe(500);
      expect(answer.text, path).not.toContain('hunter2');
    }
    expect(log).toHaveBeenCalled();
  });

  test('gives authorize the URL of the client, whatever its path is, and always answers', async () => {
    const asked: string[] = [];
    await using app = await startApp(({ url }) => {
      asked.push(url);
      return true;
    });
    const paths = ['//localhost/api/session', '//', '//a%20b/', '/%zz', '/api/session'];
    const statuses: number[] = [];
    for (const path of paths) statuses.push((await send(`${app.url}${path}`)).status);
    expect(statuses).toEqual([404, 404, 404, 404, 200]);
    expect(asked).toEqual(paths.map((path) => `${app.url}${path}`));
  });

  test('acts only with its header and from its own origin, although authorize admits the request', async () => {
    await using app = await startApp(() => true);
    const page = await openSession(app.url);
    const act = async (headers: Readonly<Record<string, string>>) => (await requeue(app.url, headers)).status;
    const [{ cookie, 'x-inspector-token': token }, other] = [page, await openSession(app.url)];
    expect(await act({})).toBe(403);
    expect(await act({ cookie })).toBe(403);
    expect(await act({ 'x-inspector-token': token })).toBe(403);
    expect(await act({ 'x-inspector-token': token, cookie: other.cookie })).toBe(403);
    expect(await act({ 'x-inspector-token': '', cookie: cookie.replace(token, '') })).toBe(403);
    expect(await act({ ...page, origin: 'https://attacker.example' })).toBe(403);
    expect(await act({ ...page, 'sec-fetch-site': 'same-site' })).toBe(403);
    expect(await act({ ...page, origin: new URL(app.url).origin })).toBe(200);
  });

  test('gives all tabs of a browser one token, in a cookie that scripts and other sites cannot use', async () => {
    await using app = await startApp(() => true);
    const first = await send(`${app.url}/api/session`);
    expect(first.headers['set-cookie']).toEqual([
      expect.stringMatching(/^stablehooks_inspector_action=[\w-]{43}; HttpOnly; SameSite=Strict$/),
    ]);
    const page = await openSession(app.url);
    expect(await openSession(app.url, page.cookie)).toEqual(page);
  });

  test('acts with the token that another instance of the app has given out', async () => {
    const source = fromInbox(await fillInbox(), { name: 'app' });
    const options = { source, actions: ['requeue'], authorize: () => true } as const;
    const instances = [createInspector(options), createInspector(options)];
    const answered: number[] = [];
    await using server = await serve(
      getRequestListener(async (request) => {
        const instance = answered.length % 2;
        answered.push(instance);
        return instances[instance]?.fetch(request) ?? Response.error();
      }),
    );
    const page = await openSession(server.url);
    expect((await requeue(server.url, page)).status).toBe(200);
    expect(answered).toEqual([0, 1]);
    for (const instance of instances) instance.close();
  });

  test('acts behind a proxy that changes the host, if the browser says that the origin is the same', async () => {
    await using app = await startApp(() => true);
    const page = await openSession(app.url);
    const act = async (headers: Readonly<Record<string, string>>) =>
      (await requeue(app.url, { ...page, host: 'inner:8080', origin: 'https://ops.example', ...headers }))
        .status;
    expect(await act({})).toBe(403);
    expect(await act({ 'sec-fetch-site': 'cross-site' })).toBe(403);
    expect(await act({ 'sec-fetch-site': 'same-origin' })).toBe(200);
  });

  test('acts over HTTP/2, which has no header with the host', async () => {
    const source = fromInbox(await fillInbox(), { name: 'app' });
    const inspector = createInspector({ source, actions: ['requeue'], authorize: () => true });
    const act = async (origin: string) => {
      const url = 'https://ops.example/api';
      const session = await inspector.fetch(new Request(`${url}/session`));
      const [cookie = ''] = session.headers.get('set-cookie')?.split(';') ?? [];
      const { actionToken } = await session.json();
      const headers = { cookie, origin, 'x-inspector-token': actionToken, 'content-type': JSON_TYPE };
      const body = JSON.stringify({ filter: { ids: [EVENT.id] } });
      const request = new Request(`${url}/actions/requeue`, { method: 'POST', headers, body });
      expect(request.headers.get('host')).toBeNull();
      return (await inspector.fetch(request)).status;
    };
    expect(await act('https://attacker.example')).toBe(403);
    expect(await act('https://ops.example')).toBe(200);
    inspector.close();
  });

  test('answers nothing outside of its base path', async () => {
    await using app = await startApp(() => true);
    const { origin } = new URL(app.url);
    for (const path of ['/', '/api/session', '/ops/hooksapi/session', '/ops/hooks/../api/session']) {
      expect((await send(`${origin}${path}`)).status, path).toBe(404);
    }
    const bare = await send(app.url);
    expect([bare.status, bare.headers['location']]).toEqual([308, '/ops/hooks/']);
    await using closed = await startApp(() => false);
    expect((await send(closed.url)).status).toBe(403);
  });
});
