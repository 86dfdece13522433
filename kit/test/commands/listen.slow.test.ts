import { readFile, stat, writeFile } from 'node:fs/promises';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET, start } from '../command.js';
import { fire, startEndpoint, startService, TOKEN } from '../service.js';

function listen(
  to: string,
  options: { readonly state: string; readonly env: object; readonly flags?: readonly string[] },
) {
  const args = [
    'listen',
    '--forward-to',
    to,
    '--state',
    options.state,
    '--every',
    '50ms',
    ...(options.flags ?? []),
  ];
  return start(args, { env: { ...options.env } });
}

describe.concurrent('listen', () => {
  test('listen forwards each new event once, across restarts', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    fire(service.sandbox, 2);
    const options = { state: folder.at('state'), env: service.env };

    const first = listen(endpoint.url, options);
    await first.printed('Listening since');
    const early = fire(service.sandbox, 2);
    await first.printed(early[1] ?? '');
    first.interrupt();
    const ended = await first.ended;
    expect(ended.stderr).toContain('Stopped after 2 deliveries. The state is saved in ');
    expect(ended.exitCode).toBe(0);

    // Fired while nobody listens.
    const late = fire(service.sandbox, 2);
    const second = listen(endpoint.url, options);
    await second.printed(late[1] ?? '');
    second.interrupt();
    await second.ended;
    expect(endpoint.handled().toSorted()).toEqual([...early, ...late].toSorted());
    expect(endpoint.outcomes.every(({ kind }) => kind === 'handled')).toBe(true);
    expect(await readFile(folder.at('state'), 'utf8')).not.toContain(SECRET);
  });

  test('listen retries what the endpoint did not accept', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    let failures = 1;
    await using endpoint = await startEndpoint(() => {
      if (failures-- > 0) throw new Error('not now');
    });
    const command = listen(endpoint.url, { state: folder.at('state'), env: service.env });
    await command.printed('Listening since');
    const [id = ''] = fire(service.sandbox, 1);
    await command.printed(new RegExp(`${id} {2}500[^]*${id} {2}200 handled`));
    command.interrupt();
    await command.ended;
    expect(endpoint.handled()).toEqual([id]);
  });

  test('listen --types --since forwards only these types, since then', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    service.sandbox.emit('redeem.failed');
    const { id } = service.sandbox.emit('accept.confirmed');
    const flags = ['--types', 'accept.confirmed,transfer.failed', '--since', '1h'];
    const command = listen(endpoint.url, { state: folder.at('state'), env: service.env, flags });
    await command.printed(id);
    const { id: last } = service.sandbox.emit('transfer.failed');
    await command.printed(last);
    command.interrupt();
    await command.ended;
    expect(endpoint.handled()).toEqual([id, last]);
  });

  test('listen continues after the service was unreachable', async () => {
    await using folder = await makeFolder();
    await using endpoint = await startEndpoint();
    const sandbox = createSandbox({ token: TOKEN, secret: SECRET });
    const listening = await sandbox.listen(0);
    const env = { STABLEHOOKS_BASE_URL: listening.url, STABLEHOOKS_TOKEN: TOKEN };
    const command = listen(endpoint.url, { state: folder.at('state'), env });
    await command.printed('Listening since');
    await command.printed(fire(sandbox, 1)[0] ?? '');
    await listening.close();
    const output = await command.printed('Trying again every 50 ms.');
    expect(output).not.toMatch(/\n\s+at /);
    await sandbox.listen(Number(new URL(listening.url).port));
    await command.printed(fire(sandbox, 1)[0] ?? '');
    command.interrupt();
    expect((await command.ended).exitCode).toBe(0);
    await sandbox.close();
  });

  test('listen says once that events can be missing, and not again after a restart', async () => {
    await using folder = await makeFolder();
    await using service = await startService({ faults: { listOrder: 'oldest', listCap: 50 } });
    await using endpoint = await startEndpoint();
    const ids = fire(service.sandbox, 60);
    const flags = ['--forward-to', endpoint.url, '--state', folder.at('state')];
    const args = ['listen', ...flags, '--since', '1h', '--every', '50ms'];
    const first = start(args, service);
    await first.printed(/Events .*created after 20\S+Z and up to 20\S+Z can be missing: /);
    // This one is found by a later poll.
    service.sandbox.faults.set({ listOrder: 'newest' });
    await first.printed(ids[59] ?? '');
    first.interrupt();
    expect((await first.ended).stderr.match(/can be missing/g)).toHaveLength(1);

    const [id = ''] = fire(service.sandbox, 1);
    const second = start(args, service);
    await second.printed(id);
    second.interrupt();
    expect((await second.ended).stderr).not.toContain('can be missing');
  });

  test('listen continues with the state file of an earlier release', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const [before = '', after = ''] = fire(service.sandbox, 2);
    const startMs = Date.now() - 3_600_000;
    const lines = [{ startMs }, { poll: { watermark: startMs, largest: 50 } }, { done: before }];
    await writeFile(folder.at('state'), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const flags = ['--forward-to', endpoint.url, '--state', folder.at('state'), '--every', '50ms'];
    const command = start(['listen', ...flags], service);
    await command.printed(after);
    command.interrupt();
    expect((await command.ended).exitCode).toBe(0);
    expect(endpoint.handled()).toEqual([after]);
  });

  test('listen on a full disk ends with one line, and loses nothing', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const args = [
      'listen',
      '--forward-to',
      endpoint.url,
      '--state',
      folder.at('state'),
      '--since',
      '1h',
      '--every',
      '50ms',
    ];
    const ids = fire(service.sandbox, 40);
    const limited = await run(args, { env: service.env, fileLimitBytes: 4_096 });
    expect(limited.stderr).toMatch(
      /\nstablehooks: .*Make room or choose another place.* \((EFBIG|ENOSPC)\)\n$/,
    );
    expect(limited.exitCode).toBe(3);

    const again = start(args, service);
    for (const id of ids) await again.printed(id);
    again.interrupt();
    await again.ended;
    expect(endpoint.handled().toSorted()).toEqual(ids.toSorted());
  });

  test.for([
    ['notes', 'do not lose this\n'],
    ['a package', '{"name":"mine","version":"1.0.0"}\n'],
    ['another journal', '{"done":"evt_1"}\n'],
    ['no event', '{"startMs":1}\n{"event":null}\n{"done":"evt_1"}\n'],
    ['another object', '{"startMs":1,"seed":7}\n'],
  ] as const)(
    'listen refuses a state file that is another file, and leaves it unchanged: %s',
    async ([, text]) => {
      await using folder = await makeFolder();
      await writeFile(folder.at('notes.txt'), text);
      const args = ['listen', '--forward-to', 'http://127.0.0.1:1/', '--state', folder.at('notes.txt')];
      const env = { STABLEHOOKS_BASE_URL: 'http://127.0.0.1:1', STABLEHOOKS_TOKEN: TOKEN };
      const { stderr, exitCode } = await run(args, { env });
      expect(stderr).toMatch(/notes\.txt is not a state file of `listen`/);
      expect(exitCode).toBe(2);
      expect(await readFile(folder.at('notes.txt'), 'utf8')).toBe(text);
    },
  );

  test('listen keeps a private state file, ignores half a line at its end, and forgets the oldest of very many ids', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const place = folder.at('state');
    const done = Array.from({ length: 100_002 }, (_, index) => `{"done":"evt_${index}"}`);
    await writeFile(place, ['{"startMs":1}', ...done, '{"ev'].join('\n'));
    const command = listen('http://127.0.0.1:1/', { state: place, env: service.env });
    await command.printed('Listening since 1970-01-01T00:00:00.001Z');
    command.interrupt();
    await command.ended;
    const lines = (await readFile(place, 'utf8')).split('\n');
    expect(lines.filter((line) => line.includes('"done"'))).toEqual(done.slice(2));
    expect((await stat(place)).mode & 0o777).toBe(0o600);
  });
});
