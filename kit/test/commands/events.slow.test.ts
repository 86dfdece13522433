import { json } from 'node:stream/consumers';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { run, SECRET, start } from '../command.js';
import { serve } from '../http-server.js';
import { fire, startEndpoint, startService, TOKEN } from '../service.js';

describe.concurrent('events list', () => {
  test('events list prints a table, newest first', async () => {
    await using service = await startService();
    service.sandbox.emit('transfer.failed');
    const [id] = fire(service.sandbox, 1);
    const { stdout, exitCode } = await run(['events', 'list'], service);
    const lines = stdout.trim().split('\n');
    expect(lines[0]).toMatch(/^TYPE +ID +AGE +DELIVERED$/);
    expect(lines[1]).toMatch(new RegExp(`^transfer.settled +${id} +\\d+(ms|s) +no$`));
    expect(lines).toHaveLength(3);
    expect(exitCode).toBe(0);
  });

  test('events list selects by type, age and delivery, and prints one JSON value per line', async () => {
    await using service = await startService();
    service.sandbox.emit('redeem.failed');
    const ids = fire(service.sandbox, 2);
    const flags = ['--json', '--type', 'transfer.settled', '--since', '1h', '--undelivered'];
    const { stdout } = await run(['events', 'list', ...flags], service);
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.map(({ id }) => id)).toEqual(ids.toReversed());
  });

  test('events list accepts an unknown type, with a note', async () => {
    await using service = await startService();
    const { id } = service.sandbox.emit('transfer.reversed');
    const { stdout, stderr, exitCode } = await run(
      ['events', 'list', '--type', 'transfer.reversed'],
      service,
    );
    expect(stdout).toContain(id);
    expect(stderr).toMatch(/^This release does not know the event type transfer\.reversed\. [^\n]+\n$/);
    expect(exitCode).toBe(0);
  });

  test('events list ends quietly when the reader closes the pipe', async () => {
    await using service = await startService();
    for (let index = 0; index < 2_000; index++) service.sandbox.emit('transfer.settled');
    const command = start(['events', 'list', '--json', '--limit', '5000'], service);
    await command.printed('transfer.settled');
    command.closeOutput();
    const { stderr, exitCode } = await command.ended;
    expect(stderr).toMatch(/^The service listed 2,000 events\. There may be more: [^\n]*\n$/);
    expect(exitCode).toBe(0);
  });
});

describe.concurrent('events show', () => {
  test('events show prints no control character of a payload raw', async () => {
    await using service = await startService();
    const note = '\u009b2K\u009b1G\u007f\u2028\u202eSETTLED\u2066';
    const { id } = service.sandbox.emit('redeem.completed', { note });
    const { stdout } = await run(['events', 'show', id], service);
    expect(stdout).toContain('"\\u009b2K\\u009b1G\\u007f\\u2028\\u202eSETTLED\\u2066"');
    expect(JSON.parse(stdout)).toMatchObject({ id, payload: { note } });
  });

  test('events show says how many events were listed without the id', async () => {
    await using service = await startService();
    fire(service.sandbox, 2);
    const { stderr, exitCode } = await run(['events', 'show', 'evt_nope'], service);
    expect(stderr).toMatch(/Not among the 2 selected events: evt_nope\. Check the id\.\n$/);
    expect(exitCode).toBe(2);
    const full = await run(['events', 'show', 'evt_nope', '--limit', '1'], service);
    expect(full.stderr).toContain("The service's list may be incomplete: pass the --type");
  });
});

describe.concurrent('events replay', () => {
  test('events replay --since sends the events oldest first, and prints a summary', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const ids = fire(service.sandbox, 4);
    const ended = await run(['events', 'replay', '--since', '1h', '--to', endpoint.url], service);
    expect(endpoint.handled()).toEqual(ids);
    expect(ended.stderr).toContain('4 of 4 sent: 4 × 200 handled');
    expect(ended.exitCode).toBe(0);
    expect(ended.stdout + ended.stderr).not.toMatch(new RegExp(`${SECRET}|${TOKEN}`));
  });

  test('events replay sends the named events in the order of their creation', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const [first = '', , third = ''] = fire(service.sandbox, 3);
    await run(['events', 'replay', third, first, '--to', endpoint.url], service);
    expect(endpoint.handled()).toEqual([first, third]);
  });

  test.for([0, 1])(
    'events replay that was stopped after the endpoint refused the event with index %i continues with that event',
    async (refused) => {
      await using service = await startService();
      const ids = fire(service.sandbox, 5);
      let release = () => {};
      const gate = new Promise<void>((resolve) => {
        release = resolve;
      });
      let isRepaired = false;
      await using endpoint = await startEndpoint((id) => {
        if (id === ids[refused] && !isRepaired) throw new Error('the ledger is down');
        return id === ids[3] ? gate : undefined;
      });
      const args = ['events', 'replay', '--all', '--to', endpoint.url];
      const command = start(args, service);
      await command.printed(ids[2] ?? '');
      command.interrupt();
      await command.printed('Finishing the current step.');
      release();
      const { stderr, exitCode } = await command.ended;
      const next =
        refused === 0
          ? 'Run the same command again.'
          : `To continue, add --after ${ids[0]} to the same command.`;
      expect(stderr).toContain(` ${next} The next run starts with ${ids[refused]}`);
      expect(exitCode).toBe(130);
      const flags = refused === 0 ? [] : ['--after', ids[0] ?? ''];
      // The exit code of the continued run speaks of the event that was refused.
      expect((await run([...args, ...flags], service)).exitCode).toBe(1);
      isRepaired = true;
      // The events after it have been handled before, so nothing ran for them.
      const repaired = await run([...args, ...flags], service);
      expect(repaired.stderr).toContain('200 duplicate: The event was already done');
      expect(repaired.exitCode).toBe(1);
      expect(endpoint.handled().toSorted()).toEqual(ids.toSorted());
    },
  );

  test('events replay stops at once when the endpoint cannot be reached', async () => {
    await using service = await startService();
    fire(service.sandbox, 3);
    const { stderr, exitCode } = await run(
      ['events', 'replay', '--all', '--to', 'http://127.0.0.1:1/'],
      service,
    );
    expect(stderr).toContain('\nStopped: 0 of 3 sent. Run the same command again.');
    expect(exitCode).toBe(3);
  });

  test.for([
    ['500 ERR_HANDLER_FAILED', '2 of 2 sent: 2 × 500 ERR_HANDLER_FAILED'],
    ['200 dead', '2 × 200 dead: The endpoint dead-lettered the event.'],
    [
      '503 ERR_EVENT_NOT_DUE',
      'ID and 1 more failed earlier and are waiting for their retry times. To make them due now, run `stablehooks inbox requeue --inbox INBOX ID …`.',
    ],
  ] as const)('events replay to an endpoint that answers %s is exit 1', async ([answer, says]) => {
    await using service = await startService();
    const [status, name] = answer.split(' ');
    const reply = status === '200' ? { outcome: name } : { outcome: 'failed', code: name };
    await using site = await serve(
      (_, response) => void response.writeHead(Number(status)).end(JSON.stringify(reply)),
    );
    const [first = ''] = fire(service.sandbox, 2);
    const { stdout, stderr, exitCode } = await run(['events', 'replay', '--all', '--to', site.url], service);
    expect(stdout).toContain(answer);
    expect(stderr).toContain(says.replaceAll('ID', first));
    expect(exitCode).toBe(1);
  });

  test.for([
    ['after it has cut the list', { listFilterAfterCap: true }, 1, 5],
    ['before it cuts the list', {}, 0, 10],
  ] as const)(
    'events replay --type of a service that selects types %s says so by its exit code',
    async ([, faults, exitCode, sent]) => {
      await using service = await startService({ faults: { listCap: 60, ...faults } });
      await using endpoint = await startEndpoint();
      for (let half = 0; half < 2; half += 1) {
        for (let count = 0; count < 5; count += 1) service.sandbox.emit('transfer.failed');
        for (let count = 0; count < 55; count += 1) service.sandbox.emit('transfer.settled');
      }
      const args = ['events', 'replay', '--type', 'transfer.failed', '--since', '7d', '--to', endpoint.url];
      const replay = await run(args, service);
      expect(endpoint.handled()).toHaveLength(sent);
      const note = 'the service may truncate its list before it filters by type.';
      expect(replay.stderr.includes(note)).toBe(exitCode === 1);
      expect(replay.exitCode).toBe(exitCode);
      const show = await run(['events', 'show', 'evt_unknown', '--type', 'transfer.failed'], service);
      expect(show.stderr.includes('Check the id.')).toBe(exitCode === 0);
    },
  );

  test('events replay --type is exit 1 if the list has moved on since the service cut it before it selected the type', async () => {
    const listed = Array.from({ length: 200 }, (_, index) =>
      exampleEvent(index % 60 === 59 ? 'transfer.failed' : 'transfer.settled'),
    );
    await using service = await serve((request, response) => {
      const type = new URL(request.url ?? '', 'http://localhost').searchParams.get('type');
      const shown = listed.slice(0, 60).filter((event) => type === null || event.type === type);
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(shown));
      if (type !== null) listed.unshift(exampleEvent('transfer.settled'));
    });
    await using endpoint = await startEndpoint();
    const env = { STABLEHOOKS_BASE_URL: service.url, STABLEHOOKS_TOKEN: TOKEN, STABLEHOOKS_SECRET: SECRET };
    const args = ['events', 'replay', '--type', 'transfer.failed', '--all', '--to', endpoint.url];
    const { stderr, exitCode } = await run(args, { env });
    expect(stderr).toContain('1 of 1 sent');
    expect(exitCode).toBe(1);
  });

  test('events replay of a full list is exit 1, because it may not have sent all', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const [first = ''] = fire(service.sandbox, 3);
    const limited = ['--limit', '3', '--to', endpoint.url];
    const all = await run(['events', 'replay', '--since', '1h', ...limited], service);
    expect(all.stderr).toContain('There may be more: raise --limit.');
    expect(all.stderr).toContain('3 of 3 sent');
    await using other = await startEndpoint();
    const named = await run(['events', 'replay', first, '--limit', '3', '--to', other.url], service);
    expect([all.exitCode, named.exitCode]).toEqual([1, 0]);
  });

  test('events replay without an event in the span says that it sent nothing', async () => {
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const args = ['events', 'replay', '--since', '1h', '--to', endpoint.url];
    const { stderr, exitCode } = await run(args, service);
    expect(stderr).toBe('No event matches, so nothing was sent.\n');
    expect(exitCode).toBe(1);
  });

  test('events replay of a list that the service can have cut is exit 1, because it may not have sent all', async () => {
    await using service = await startService({ faults: { listCap: 60 } });
    await using endpoint = await startEndpoint();
    for (let count = 0; count < 100; count++) service.sandbox.emit('transfer.settled');
    const { stderr, exitCode } = await run(['events', 'replay', '--all', '--to', endpoint.url], service);
    expect(stderr).toMatch(/^The service listed 60 events\. There may be more/);
    expect(stderr).toContain('60 of 60 sent: 60 × 200 handled');
    expect(stderr).toMatch(/\nThe service's list may be incomplete, .* use `stablehooks catch-up`, .*\n$/);
    expect(exitCode).toBe(1);

    const missing = await run(['events', 'show', 'evt_nope'], service);
    expect(missing.stderr).toContain("The service's list may be incomplete");
  });

  test('events replay and show take the first of different events with one id, say so and are exit 1', async () => {
    const [event, other] = [exampleEvent('transfer.settled'), exampleEvent('transfer.failed')];
    const twin = { ...event, payload: { ...event.payload, amount: '1000.00' } };
    const copy = { ...Object.fromEntries(Object.entries(event).reverse()), delivered: true };
    const listed = [event, other, copy, twin];
    await using service = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(listed));
    });
    const amounts: unknown[] = [];
    await using endpoint = await serve((request, response) => {
      void json(request).then((body) => {
        const { id, payload } = body as typeof event;
        if (id === event.id) amounts.push(payload['amount']);
        response.writeHead(200).end('{"outcome":"handled"}');
      });
    });
    const env = { STABLEHOOKS_BASE_URL: service.url, STABLEHOOKS_TOKEN: TOKEN, STABLEHOOKS_SECRET: SECRET };
    const command = async (...args: readonly string[]) => {
      const { stderr, exitCode } = await run(['events', ...args], { env });
      return { isNoted: stderr.includes(`different events with the same id: ${event.id}. `), exitCode };
    };
    const to = ['--to', endpoint.url];
    const conflict = { isNoted: true, exitCode: 1 };
    expect(await command('replay', '--all', ...to)).toEqual(conflict);
    expect(await command('replay', event.id, ...to)).toEqual(conflict);
    expect(await command('show', event.id)).toEqual(conflict);
    expect(amounts).toEqual([event.payload['amount'], event.payload['amount']]);
    // The other event is not in doubt.
    expect(await command('replay', other.id, ...to)).toEqual({ isNoted: true, exitCode: 0 });
    expect(await command('show', other.id)).toEqual({ isNoted: true, exitCode: 0 });
    expect(await command('list')).toEqual({ isNoted: true, exitCode: 0 });
    // One of them is selected, and the other one is first.
    twin.created_at = '2020-01-01T00:00:00Z';
    expect(await command('replay', '--all', '--until', '2020-01-02', ...to)).toEqual({
      ...{ isNoted: true, exitCode: 1 },
    });
    listed.pop();
    expect(await command('replay', '--all', ...to)).toEqual({ isNoted: false, exitCode: 0 });
  });

  test('events replay of a list with an element that is not an event is exit 1, unless ids are named', async () => {
    const event = exampleEvent('transfer.settled');
    await using service = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify([event, { id: 7 }]));
    });
    await using endpoint = await startEndpoint();
    const env = { STABLEHOOKS_BASE_URL: service.url, STABLEHOOKS_TOKEN: TOKEN };
    const all = await run(['events', 'replay', '--all', '--to', endpoint.url], { env });
    expect(all.stderr).toContain('Skipped 1 list element: not in the form of an event.\n');
    expect(all.stderr).toContain('1 of 1 sent');
    await using other = await startEndpoint();
    const named = await run(['events', 'replay', event.id, '--to', other.url], { env });
    expect([all.exitCode, named.exitCode], named.stderr).toEqual([1, 0]);
  });
});
