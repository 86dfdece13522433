import { once } from 'node:events';
import { createServer } from 'node:http';
import { EVENT_TYPES } from 'stablehooks';
import { POLL_NOTE } from 'stablehooks/catch-up';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, test, vi } from 'vitest';
import { makeFolder, run, SECRET, start } from '../command.js';
import { findClosedUrl, serve } from '../http-server.js';
import { openCatchUp } from '../own-inbox.js';
import { fire, startEndpoint, startService, TOKEN } from '../service.js';

interface ListenOptions {
  readonly inbox?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
}

function listen(to: string, { inbox, env, flags = [] }: ListenOptions) {
  const kept = inbox === undefined ? [] : ['--inbox', inbox];
  return start(['listen', '--to', to, '--interval', '50ms', ...kept, ...flags], { env });
}

describe.concurrent('listen', () => {
  test('listen --inbox forwards each new event once, across restarts, and Ctrl-C is exit 130', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    fire(service.sandbox, 2);
    // The clock of the service has whole seconds, so it can count events of the present second as new.
    const firedUntil = Date.now();
    await vi.waitUntil(() => Math.floor(Date.now() / 1_000) * 1_000 > firedUntil, { timeout: 60_000 });
    const options = { inbox: folder.at('app.db'), env: service.env };

    const first = listen(endpoint.url, options);
    await first.printed(`The state is in ${folder.at('app.db')}.`);
    const early = fire(service.sandbox, 2);
    for (const id of early) await first.printed(id);
    first.interrupt();
    const ended = await first.ended;
    expect(ended.stderr).toContain('\nStopped: 2 delivered, 0 waiting.');
    expect(ended.exitCode).toBe(130);

    // Fired while no command listens.
    const late = fire(service.sandbox, 2);
    const second = listen(endpoint.url, options);
    for (const id of late) await second.printed(id);
    second.interrupt();
    await second.ended;
    expect(endpoint.handled().toSorted()).toEqual([...early, ...late].toSorted());
    expect(endpoint.outcomes.every(({ kind }) => kind === 'handled')).toBe(true);
  });

  test('listen without --inbox says that nothing is kept, and its next run begins again', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const first = listen(endpoint.url, { env: service.env });
    await first.printed(
      'Delivery state is kept in memory and lost when this command exits. Pass --inbox to keep it.',
    );
    const [id = ''] = fire(service.sandbox, 1);
    await first.printed(id);
    first.interrupt();
    expect((await first.ended).stderr).toContain('\nStopped: 1 delivered, 0 waiting.\n');
    const again = listen(endpoint.url, { env: service.env, flags: ['--since', '1h'] });
    await again.printed(new RegExp(`${id} {2}200 duplicate`));
    again.interrupt();
    await again.ended;
  });

  test('listen --json prints the attempt, the answer and the next try of each delivery', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint(() => {
      throw new Error('never');
    });
    const command = listen(endpoint.url, { env: service.env, flags: ['--json'] });
    await command.printed('Listening since');
    const [id = ''] = fire(service.sandbox, 1);
    await command.printed(id);
    command.interrupt();
    const { stdout, stderr } = await command.ended;
    expect(JSON.parse(stdout.split('\n')[0] ?? '')).toMatchObject({
      id,
      status: 500,
      code: 'ERR_HANDLER_FAILED',
      attempt: 1,
      nextInMs: expect.any(Number),
    });
    expect(stderr).toContain('Stopped: 0 delivered, 1 waiting.');
  });

  test('a listen whose endpoint has no handler says so once, and does not count the events as delivered', async () => {
    await using service = await startService();
    await using server = await serve((_, response) => void response.end('{"outcome":"ignored"}'));
    const command = listen(server.url, { env: service.env });
    await command.printed('Listening since');
    for (const id of fire(service.sandbox, 2)) await command.printed(new RegExp(`${id} +200 ignored`));
    command.interrupt();
    const { stderr } = await command.ended;
    expect(stderr.match(/The endpoint has no handler for this type/g)).toHaveLength(1);
    expect(stderr).toContain('Stopped: 0 delivered, 2 without a handler, 0 waiting.');
  });

  test('listen and catch-up are exit 3 while another process polls with their inbox', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const path = folder.at('app.db');
    using inbox = await openCatchUp(path);
    await inbox.leaseNote(POLL_NOTE, { holder: 'another', leaseMs: 600_000 });
    for (const command of ['listen', 'catch-up']) {
      const args = [command, '--to', 'http://127.0.0.1:9/hooks', '--inbox', path];
      const { stderr, exitCode } = await run(args, service);
      expect(stderr).toContain('Another process is polling with this inbox');
      expect(exitCode).toBe(3);
    }
  });

  test('listen says once that the service is lost, and once that it answers again', async () => {
    await using endpoint = await startEndpoint();
    const sandbox = createSandbox({ token: TOKEN, secret: SECRET });
    const listening = await sandbox.listen(0);
    const env = { STABLEHOOKS_BASE_URL: listening.url, STABLEHOOKS_TOKEN: TOKEN };
    const command = listen(endpoint.url, { env });
    await command.printed('Listening since');
    await command.printed(fire(sandbox, 1)[0] ?? '');
    await listening.close();
    const output = await command.printed('Retrying every 50ms.');
    expect(output).toMatch(new RegExp(`\n\\d\\d:\\d\\d:\\d\\dZ {2}The service at ${listening.url}: .*\n`));
    expect(output).not.toMatch(/\n\s+at /);
    await sandbox.listen(Number(new URL(listening.url).port));
    await command.printed(`The service at ${listening.url} is responding again.`);
    await command.printed(fire(sandbox, 1)[0] ?? '');
    command.interrupt();
    const { stderr, exitCode } = await command.ended;
    expect(stderr.match(/Retrying every/g)).toHaveLength(1);
    expect(stderr.match(/is responding again/g)).toHaveLength(1);
    expect(exitCode).toBe(130);
    await sandbox.close();
  });

  test('listen says once that the endpoint is lost, and once that it answers again', async () => {
    await using service = await startService();
    const closed = await findClosedUrl();
    const command = listen(closed, { env: service.env });
    await command.printed('Listening since');
    const ids = fire(service.sandbox, 2);
    for (const id of ids) await command.printed(id);
    const server = createServer((_, response) => void response.end());
    await once(server.listen(Number(new URL(closed).port), '127.0.0.1'), 'listening');
    await using _ = await serve(server);
    await command.printed(`The endpoint ${closed} is responding again.`);
    for (const id of ids) await command.printed(new RegExp(`${id} +200 `));
    command.interrupt();
    const { stderr } = await command.ended;
    expect(stderr.match(/ECONNREFUSED/g)).toHaveLength(1);
    expect(stderr.match(/is responding again/g)).toHaveLength(1);
    expect(stderr).toContain('Stopped: 2 delivered, 0 waiting.');
  });

  test('listen points to doctor when the endpoint refuses the signature', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const env = { ...service.env, STABLEHOOKS_SECRET: 'another secret' };
    const command = listen(endpoint.url, { env });
    await command.printed('Listening since');
    fire(service.sandbox, 2);
    await command.printed(
      `The endpoint rejects the signature. To find out why, run \`stablehooks doctor ${endpoint.url}\`.`,
    );
    command.interrupt();
    expect((await command.ended).stderr.match(/stablehooks doctor/g)).toHaveLength(1);
  });

  test('listen prints the URL of the endpoint without its query, which can hold a token', async () => {
    await using service = await startService();
    let requests = 0;
    await using site = await serve((request, response) => {
      requests += 1;
      if (requests === 1) response.writeHead(401).end();
      else request.socket.destroy();
    });
    const command = listen(`${site.url}/hooks?token=tok_in_query#part`, { env: service.env });
    const shown = `${site.url}/hooks?…`;
    await command.printed(`forwarding to ${shown}. `);
    fire(service.sandbox, 2);
    await command.printed(`To find out why, run \`stablehooks doctor ${shown}\`.`);
    await command.printed(`The endpoint ${shown}: `);
    command.interrupt();
    const { stdout, stderr } = await command.ended;
    expect(stdout + stderr).not.toMatch(/tok_in_query|#part/);
  });

  test('listen says once that events may be missing, and not again after a restart', async () => {
    await using folder = await makeFolder();
    await using service = await startService({ faults: { listOrder: 'oldest', listCap: 50 } });
    await using endpoint = await startEndpoint();
    // The list of every type is cut, so that later polls make this gap longer and open none of their own.
    const ids = Array.from(
      { length: 300 },
      (_, index) => service.sandbox.emit(EVENT_TYPES[index % EVENT_TYPES.length] ?? EVENT_TYPES[0]).id,
    );
    const options = { inbox: folder.at('app.db'), env: service.env, flags: ['--since', '1h', '--lag', '0s'] };
    const first = listen(endpoint.url, options);
    await first.printed(/Events .*created after 20\S+Z and up to 20\S+Z may be missing[.:] /);
    // This one is found by a later poll.
    service.sandbox.faults.set({ listOrder: 'newest' });
    await first.printed(ids[299] ?? '');
    first.interrupt();
    expect((await first.ended).stderr.match(/may be missing/g)).toHaveLength(1);

    const [id = ''] = fire(service.sandbox, 1);
    // With the usual lag there is nothing new to judge.
    const second = listen(endpoint.url, { ...options, flags: [] });
    await second.printed(id);
    second.interrupt();
    expect((await second.ended).stderr).not.toContain('may be missing');
  });

  test('listen on a full disk ends with one line, and loses nothing', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const inbox = folder.at('app.db');
    (await openCatchUp(inbox))[Symbol.dispose]();
    const args = ['listen', '--to', endpoint.url, '--inbox', inbox, '--since', '1h', '--interval', '50ms'];
    const ids = fire(service.sandbox, 120);
    const limited = await run(args, { env: service.env, fileLimitBytes: 196_608 });
    expect(limited.stderr).toMatch(/\nstablehooks: [^\n]*Free up space or choose another location[^\n]*\n$/);
    expect(limited.exitCode).toBe(3);

    // The poll lease could not be released on the full disk, so it has to expire.
    let again = start(args, service);
    const begins = () =>
      again.printed('Listening since').then(
        () => true,
        () => false,
      );
    while (!(await begins())) again = start(args, service);
    for (const id of ids.filter((each) => !endpoint.handled().includes(each))) await again.printed(id);
    again.interrupt();
    await again.ended;
    expect(endpoint.handled().toSorted()).toEqual(ids.toSorted());
  });
});
