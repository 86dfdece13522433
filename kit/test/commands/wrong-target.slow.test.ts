/** A command that acts on many events stops at the first sign that it acts on the wrong thing. */
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { serve } from '../http-server.js';
import { fire, startEndpoint, startService } from '../service.js';
import { deliverToFile, openSqlite } from '../sqlite-file.js';

describe.concurrent('a wrong target', () => {
  test('inbox run to the app of another inbox runs one handler there, and leaves the other events unchanged', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    const events = Array.from({ length: 5 }, () => exampleEvent('transfer.failed'));
    await deliverToFile(path, events);
    await using otherApp = await startEndpoint();
    const args = ['inbox', 'run', '--inbox', path, '--state', 'dead', '--to', otherApp.url];
    const { stderr, exitCode } = await run(args);
    expect(otherApp.handled()).toHaveLength(1);
    expect(stderr).toContain('Not tried, and unchanged: 4 events.');
    expect(stderr).toContain("Pass the URL of that app's receiver to --to");
    expect(exitCode).toBe(1);
    using inbox = await openSqlite(path);
    const records = await inbox.list({ state: 'dead', limit: 10 });
    expect(records.map(({ history }) => history.length).toSorted()).toEqual([1, 1, 1, 1, 3]);
  });

  test.for([401, 404])('trigger and events replay stop after the first answer %i', async (status) => {
    let requests = 0;
    await using site = await serve((request, response) => {
      request.resume();
      requests += 1;
      response.writeHead(status).end();
    });
    const sent = await run(['trigger', 'transfer.settled', '--count', '9', '--to', site.url]);
    expect(sent.stderr).toContain('1 of 9 sent');
    expect(sent.stderr).toContain('the URL or the secret is wrong');
    expect([sent.exitCode, requests]).toEqual([1, 1]);

    await using service = await startService();
    fire(service.sandbox, 3);
    const replayed = await run(['events', 'replay', '--all', '--to', site.url], service);
    expect(replayed.stderr).toContain('Stopped: 1 of 3 sent');
    expect([replayed.exitCode, requests]).toEqual([1, 2]);
  });

  test('trigger by a sandbox stops when all of its endpoints are wrong, and not when one is', async () => {
    await using wrong = await serve((request, response) => {
      request.resume();
      response.writeHead(404).end();
    });
    await using right = await startEndpoint();
    const trigger = async (...urls: readonly string[]) => {
      await using service = await startService({ endpoints: urls.map((url) => ({ url })) });
      return (await run(['trigger', 'transfer.settled', '--count', '4'], service)).stderr;
    };
    expect(await trigger(wrong.url, wrong.url)).toContain('2 of 8 sent');
    expect(await trigger(wrong.url, right.url)).toContain('8 of 8 sent');
  });

  test('catch-up sends one event to a wrong URL, or with a wrong secret, and none of the others', async () => {
    const requests: unknown[] = [];
    await using wrong = await serve((request, response) => {
      request.resume();
      requests.push(request.url);
      response.writeHead(404).end();
    });
    await using endpoint = await startEndpoint();
    await using service = await startService();
    await using folder = await makeFolder();
    fire(service.sandbox, 4);
    const catchUp = (to: string, env = service.env) => {
      const file = ['--inbox', folder.at(`${requests.length}-${endpoint.outcomes.length}.db`)];
      return run(['catch-up', '--to', to, ...file, '--since', '1h', '--lag', '0s'], { env });
    };
    const refused = await catchUp(wrong.url);
    expect([requests.length, refused.exitCode]).toEqual([1, 1]);
    expect(refused.stdout).toContain(
      'Not sent: the first response shows that the URL or the secret is wrong.',
    );
    const other = { ...service.env, STABLEHOOKS_SECRET: 'another secret' };
    expect((await catchUp(endpoint.url, other)).exitCode).toBe(1);
    expect(endpoint.outcomes.map(({ kind }) => kind)).toEqual(['rejected']);
    expect((await catchUp(endpoint.url)).exitCode).toBe(0);
  });
});
