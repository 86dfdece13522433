/** What a receiver counts for `health`: refused deliveries and ignored events. */
import { createReceiver, memoryInbox, SIGNATURE_HEADER, sign } from 'stablehooks';
import { health } from 'stablehooks/health';
import { expect, test } from 'vitest';
import { anEvent, bytesOf, delivery, secret } from './delivery.js';

function setUp() {
  const clock = { now: Date.parse('2026-03-01T09:00:00Z') };
  const timers: { readonly at: number; readonly callback: () => void }[] = [];
  const runtime = {
    now: () => clock.now,
    setTimeout: (callback: () => void, ms: number) => timers.push({ at: clock.now + ms, callback }),
    clearTimeout: (timer: unknown) => void delete timers[Number(timer) - 1],
  };
  const inbox = memoryInbox({ runtime });
  const writes: number[] = [];
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const counted: typeof inbox = {
    ...inbox,
    writeNote: (name, text, fence) => {
      if (name === 'tally') writes.push(clock.now);
      return inbox.writeNote(name, text, fence);
    },
  };
  /** A process of the app. While it has a fault, its notes fail in that way. */
  const createProcess = () => {
    const its: { fault: Partial<typeof inbox> | undefined } = { fault: undefined };
    const faulty: typeof inbox = {
      ...counted,
      readNote: (...note) => (its.fault?.readNote ?? counted.readNote)(...note),
      writeNote: (...note) => (its.fault?.writeNote ?? counted.writeNote)(...note),
      leaseNote: (...note) => (its.fault?.leaseNote ?? counted.leaseNote)(...note),
    };
    const receiver = createReceiver({
      ...{ secret, runtime, inbox: faulty, logger: { warn: log, error: log } },
      handlers: { 'transfer.settled': () => undefined },
    });
    return Object.assign(its, { receiver });
  };
  const { receiver } = createProcess();
  const check = async (name: 'refused' | 'ignored') => {
    await passSeconds(0);
    return (await health(inbox, { runtime })).checks.find((each) => each.name === name);
  };
  /** Runs the timers of the next seconds. */
  async function passSeconds(seconds: number) {
    clock.now += seconds * 1_000;
    for (const [index, timer] of timers.entries()) {
      if (timer === undefined || timer.at > clock.now) continue;
      delete timers[index];
      timer.callback();
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { receiver, createProcess, inbox, lines, writes, check, passSeconds };
}

const forged = async () =>
  delivery(anEvent(), {
    headers: { [SIGNATURE_HEADER]: await sign(bytesOf('another body'), { secret: 'whsec_other' }) },
  });

test('five signed deliveries that were refused are unhealthy until one is accepted', async () => {
  const { receiver, check, passSeconds } = setUp();
  await receiver.receive(await delivery(anEvent()));
  for (let refused = 0; refused < 4; refused += 1) {
    await passSeconds(1);
    await receiver.receive(await forged());
  }
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({ tone: 'warning', count: 4 });
  await receiver.receive(await delivery('{'));
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({
    ...{ tone: 'failing', count: 5 },
    message: expect.stringMatching(
      /since 2026-03-01T09:00:00.*ERR_SIGNATURE_MISMATCH 4, ERR_EVENT_MALFORMED 1/,
    ),
  });
  await receiver.receive(await delivery(anEvent()));
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({ tone: 'warning' });
  for (let refused = 0; refused < 5; refused += 1) await receiver.receive(await forged());
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({ tone: 'failing', count: 10 });
  await receiver.receive(await delivery(anEvent()));
  await passSeconds(3 * 3_600);
  expect(await check('refused')).toMatchObject({ tone: 'ok' });
});

test('a delivery of a known event ends it as well, although it stores nothing new', async () => {
  const { receiver, inbox, check, passSeconds } = setUp();
  const event = anEvent();
  await inbox.importDone([event.id]);
  await passSeconds(1);
  for (let refused = 0; refused < 5; refused += 1) await receiver.receive(await forged());
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({ tone: 'failing' });
  await passSeconds(1);
  await receiver.receive(await delivery(event));
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({ tone: 'warning' });
});

test('bots, failing handlers and a receiver that closes do not count, and nothing is written for them', async () => {
  const { receiver, writes, check, passSeconds } = setUp();
  for (let bot = 0; bot < 10; bot += 1) {
    await receiver.receive(await delivery(anEvent(), { headers: { [SIGNATURE_HEADER]: '' } }));
    await receiver.receive(await delivery(anEvent(), { method: 'GET' }));
    await receiver.receive(await delivery(anEvent()));
  }
  await receiver.close();
  await receiver.receive(await delivery(anEvent()));
  await passSeconds(10);
  expect([await check('refused'), writes]).toMatchObject([{ tone: 'ok' }, []]);
});

test('signatures of another form are a warning that says what to set, however many they are', async () => {
  const { receiver, check, passSeconds } = setUp();
  const signature = `sha256=${'0'.repeat(64)}`;
  for (let count = 0; count < 30; count += 1)
    await receiver.receive(await delivery(anEvent(), { headers: { [SIGNATURE_HEADER]: signature } }));
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({
    ...{ tone: 'warning', count: 30 },
    message: expect.stringMatching(/ERR_SIGNATURE_MALFORMED 30.*encoding and prefix/),
  });
});

test('many refused deliveries are written at most every ten seconds, and the rest when the receiver closes', async () => {
  const { receiver, writes, check, passSeconds } = setUp();
  for (let second = 0; second < 25; second += 1) {
    await receiver.receive(await forged());
    await passSeconds(1);
  }
  expect(writes.length).toBe(3);
  await receiver.close();
  expect(writes.length).toBe(4);
  expect(await check('refused')).toMatchObject({ count: 25 });
});

test.each<[string, Partial<ReturnType<typeof memoryInbox>>]>([
  ['another process writes its own', { leaseNote: async () => false }],
  ['another process has taken over the lease', { writeNote: async () => false }],
  ['the inbox fails', { readNote: () => Promise.reject(new Error('down')) }],
])('what a process counts while %s is written later', async (_, fault) => {
  const { createProcess, check, passSeconds } = setUp();
  const its = createProcess();
  its.fault = fault;
  await its.receiver.receive(await forged());
  await passSeconds(10);
  expect(await check('refused')).not.toMatchObject({ tone: 'warning' });
  its.fault = undefined;
  await its.receiver.receive(await forged());
  await passSeconds(20);
  expect(await check('refused')).toMatchObject({ tone: 'warning', count: 2 });
});

test('the last refused deliveries of all processes count, in whatever order they are written', async () => {
  const { receiver, createProcess, check, passSeconds } = setUp();
  const late = createProcess();
  late.fault = { leaseNote: async () => false };
  for (let refused = 0; refused < 5; refused += 1) await late.receiver.receive(await forged());
  await receiver.receive(await forged());
  await passSeconds(1);
  await receiver.receive(await delivery(anEvent()));
  await passSeconds(10);
  for (let refused = 0; refused < 5; refused += 1) await receiver.receive(await forged());
  await passSeconds(10);
  late.fault = undefined;
  await late.receiver.close();
  expect(await check('refused')).toMatchObject({ tone: 'failing', count: 11 });
});

test('refused deliveries of the hour before count as well, and older ones do not', async () => {
  const { receiver, check, passSeconds } = setUp();
  await receiver.receive(await forged());
  await passSeconds(70 * 60);
  await receiver.receive(await forged());
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({ tone: 'warning', count: 2 });
  await passSeconds(60 * 60);
  await receiver.receive(await forged());
  await passSeconds(10);
  expect(await check('refused')).toMatchObject({ tone: 'warning', count: 2 });
});

test('events without a handler are a warning, with one line per type, until they are requeued and run elsewhere', async () => {
  const { receiver, inbox, lines, check, passSeconds } = setUp();
  for (const type of ['redeem.completed', 'redeem.completed', 'transfer.failed', 'transfer.settled']) {
    expect((await receiver.receive(await delivery(anEvent({ type })))).kind).toMatch(/ignored|handled/);
  }
  await passSeconds(10);
  expect(lines).toEqual([
    expect.stringContaining('no handler for redeem.completed'),
    expect.stringContaining('no handler for transfer.failed'),
  ]);
  expect(await check('ignored')).toMatchObject({
    ...{ tone: 'warning', healthy: true, count: 3 },
    message: expect.stringMatching(/redeem\.completed 2, transfer\.failed 1\..*requeue --ignored/),
  });
  const handled: string[] = [];
  const web = createReceiver({
    secret,
    inbox,
    handlers: { 'redeem.completed': ({ id }) => handled.push(id) },
  });
  expect(await inbox.requeue({ ignored: true, type: 'redeem.completed' })).toBe(2);
  await web.redrive();
  expect(handled).toHaveLength(2);
});
