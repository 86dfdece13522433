/** The inspector that `stablehooks sandbox` and `stablehooks listen --inspect` serve, over HTTP. */
import type { AttemptDetail, EventPage } from 'stablehooks-kit/inspector';
import { describe, expect, test } from 'vitest';
import type {
  ActionInputs,
  ActionName,
  ActionResults,
  CoverageReport,
  EventDetail,
  Session,
} from '../../src/inspector/api.js';
import { makeFolder, SECRET, start } from '../command.js';
import { startEndpoint, startService, TOKEN } from '../service.js';
import { type Answer, send, signIn } from './http.js';

/** The URL of the inspector in the output of a command. */
function inspectorUrlIn(output: string): string {
  const [url] = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]+/.exec(output) ?? [];
  if (url === undefined) throw new Error(`There is no URL of an inspector in:\n${output}`);
  return url;
}

/** Requests of a page that was opened with the URL. */
async function openSession(printed: string) {
  const { url, headers } = await signIn(printed);
  async function read<Body>(pending: Promise<Answer>): Promise<Body> {
    const { status, text } = await pending;
    if (status !== 200) throw new Error(`${status}: ${text}`);
    return JSON.parse(text);
  }
  const ask = <Body>(path: string) => read<Body>(send(`${url}/api/${path}`, { headers }));
  return {
    session: await ask<Session>('session'),
    ask,
    act: <Name extends ActionName>(name: Name, input: ActionInputs[Name]) =>
      read<ActionResults[Name]>(
        send(`${url}/api/actions/${name}`, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify(input),
        }),
      ),
  };
}

/** Asks until the answer has what is waited for; the limit of the test ends it. */
async function until<Answer>(
  ask: () => Promise<Answer>,
  isThere: (answer: Answer) => boolean,
): Promise<Answer> {
  for (;;) {
    const answer = await ask();
    if (isThere(answer)) return answer;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe.concurrent('the inspector of a command', () => {
  test('sandbox prints the URL of its inspector, which fires, explains and sends again', async () => {
    await using endpoint = await startEndpoint();
    const command = start(['sandbox', '--port', '0', '--to', endpoint.url], {
      env: { STABLEHOOKS_TOKEN: TOKEN },
    });
    const url = inspectorUrlIn(await command.printed('Press Ctrl-C to stop.'));
    const { session, ask, act } = await openSession(url);
    expect(session).toMatchObject({ name: 'sandbox', views: ['overview', 'events', 'sandbox'] });
    const fired = await act('fire', { type: 'transfer.settled', payload: { note: 'written here' } });
    const { rows } = await until(
      () => ask<EventPage>('events'),
      (page) => page.rows.length > 0,
    );
    expect(rows).toMatchObject([{ id: fired.id, type: 'transfer.settled', verdict: 'Accepted' }]);
    const id = rows[0]?.history[0]?.id ?? '';
    const detail = await ask<AttemptDetail>(`attempts/${id}`);
    expect(detail.verdict).toEqual({
      what: 'The signature is correct. The handler completed.',
      fix: null,
    });
    expect(Buffer.from(detail.request.body, 'base64').toString()).toContain('written here');
    const again = await act('resend', { id });
    expect(await ask<AttemptDetail>(`attempts/${again.id}`)).toMatchObject({ outcome: 'duplicate' });
    command.interrupt();
    const { stdout, exitCode } = await command.ended;
    expect(exitCode).toBe(130);
    expect(stdout).not.toContain(TOKEN);
  });

  test('the token of the service is needed for its routes, whoever may use the page, and the other way round', async () => {
    const command = start(['sandbox', '--port', '0', '--json'], { env: { STABLEHOOKS_TOKEN: TOKEN } });
    const [line = ''] = (await command.printed(/sandbox\.listening.*\n/)).split('\n');
    const greeting = JSON.parse(line) as { readonly url: string; readonly inspector: string };
    expect(greeting.inspector).toBe(inspectorUrlIn(line));
    const page = await fetch(greeting.inspector);
    expect(page.status).toBe(200);
    const [cookie = ''] = page.headers.get('set-cookie')?.split(';') ?? [];
    const status = async (path: string, headers: Record<string, string>) =>
      (await fetch(greeting.url + path, { headers })).status;
    const [asPage, asService] = [{ cookie }, { authorization: `Bearer ${TOKEN}` }];
    for (const path of ['/v1/webhooks/events', '/sandbox/events', '/sandbox/stream']) {
      expect(await status(path, asPage)).toBe(401);
    }
    expect(await status('/sandbox/events', asService)).toBe(200);
    for (const path of ['/', '/api/session', '/api/events', '/assets/index.js']) {
      expect(await status(path, asService)).toBe(401);
    }
    expect(await status('/api/session', asPage)).toBe(200);
    command.interrupt();
    await command.ended;
  });

  test('sandbox at an address that is not of the loopback offers no page, because no browser could open it', async () => {
    const command = start(['sandbox', '--port', '0', '--host', '127.0.0.2'], {
      env: { STABLEHOOKS_TOKEN: TOKEN },
    });
    const output = await command.printed('Press Ctrl-C to stop.');
    expect(output).toContain(
      'The inspector is off: it needs a --host that this machine can reach as 127.0.0.1.',
    );
    expect(output).not.toContain('?token=');
    const [url = ''] = /http:\/\/127\.0\.0\.2:\d+/.exec(output) ?? [];
    expect((await fetch(`${url}/`)).status).toBe(401);
    command.interrupt();
    await command.ended;
  });

  test('listen --inspect shows what it forwards, why it failed, its inbox and what is proven', async () => {
    await using folder = await makeFolder();
    let works = false;
    await using endpoint = await startEndpoint(() => {
      if (!works) throw new Error('not yet');
    });
    await using service = await startService();
    const place = folder.at('listen.db');
    const command = start(
      ['listen', '--to', endpoint.url, '--inspect', '--inbox', place, '--since', '1h', '--interval', '100ms'],
      { env: service.env },
    );
    const url = inspectorUrlIn(await command.printed('?token='));
    const { session, ask, act } = await openSession(url);
    expect(session).toMatchObject({
      name: place,
      views: ['overview', 'events', 'coverage'],
      actions: ['resend', 'requeue', 'discard', 'acknowledge-gap'],
    });
    const event = service.sandbox.emit('transfer.settled');
    // Between two attempts it is leased.
    const isThere = ({ rows }: EventPage) => rows.length > 0;
    await until(() => ask<EventPage>('events?state=failed'), isThere);
    const { deliveries } = await ask<EventDetail>(`events/${event.id}`);
    const id = deliveries[0]?.id ?? '';
    expect(deliveries[0]).toMatchObject({ name: 'Attempt 1', endpoint: endpoint.url });
    const detail = await ask<AttemptDetail>(`attempts/${id}`);
    expect(detail).toMatchObject({
      verdict: { what: 'The signature is correct. The handler threw an error.' },
      response: { status: 500, cut: false, headers: { 'content-type': 'application/problem+json' } },
    });
    expect(JSON.parse(Buffer.from(detail.request.body, 'base64').toString())).toEqual(event);
    expect((await ask<EventPage>(`events?text=${event.id}`)).rows.length).toBeGreaterThan(0);

    works = true;
    const bytes = Buffer.from([0xff, 0x00]);
    const edited = await act('resend', { id, body: bytes.toString('base64') });
    expect(await ask<AttemptDetail>(`attempts/${edited.id}`)).toMatchObject({
      request: { body: bytes.toString('base64') },
      outcome: 'ERR_EVENT_MALFORMED',
    });
    // The command itself may be sending it as well.
    await until(
      async () => ask<AttemptDetail>(`attempts/${(await act('resend', { id })).id}`),
      ({ kind }) => kind === 'accepted',
    );
    expect(endpoint.handled()).toEqual([event.id]);
    await expect(act('resend', { id, url: 'file:///etc/passwd' })).rejects.toThrow('400: ');
    const coverage = await until(
      () => ask<CoverageReport>('coverage'),
      ({ lastPoll }) => lastPoll !== null,
    );
    expect(coverage.watermark).not.toBeNull();
    command.interrupt();
    const { exitCode, stdout, stderr } = await command.ended;
    expect(exitCode).toBe(130);
    expect(stdout + stderr).not.toContain(SECRET);
  });
});
