import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createFeed, streamFeed } from '../../src/sandbox/feed.js';
import { startSandbox } from './sandbox-server.js';

test('the stream sends what happens as server-sent events', async () => {
  const { url, sandbox } = await startSandbox({ endpoints: [{ fetch: () => new Response() }] });
  const headers = { authorization: `Bearer ${sandbox.token}` };
  const { body } = await fetch(`${url}/sandbox/stream`, { headers });
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const readUntil = async (wanted: string) => {
    while (!text.includes(wanted)) text += (await reader?.read())?.value ?? '';
  };
  await readUntil(': open');
  const { id } = sandbox.accept();
  await readUntil('event: delivery.delivered');
  await reader?.cancel();
  const kinds = [...text.matchAll(/^event: (.*)$/gm)].map(([, kind]) => kind);
  expect(kinds).toEqual([
    'movement.begun',
    'movement.ended',
    'event.fired',
    'attempt.made',
    'delivery.delivered',
  ]);
  expect(text).toContain(id);
});

test('the stream sends a comment every 15 seconds', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const reader = streamFeed(createFeed(Date.now)).body?.pipeThrough(new TextDecoderStream()).getReader();
  expect(await reader?.read()).toEqual({ value: ': open\n\n', done: false });
  for (let pings = 0; pings < 3; pings++) {
    vi.advanceTimersByTime(15_000);
    expect(await reader?.read()).toEqual({ value: ': ping\n\n', done: false });
  }
  await reader?.cancel();
});

test('an error of a listener is logged and affects neither other listeners nor deliveries', async () => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => {});
  onTestFinished(() => log.mockRestore());
  const { sandbox } = await startSandbox({ endpoints: [{ fetch: () => new Response() }], movementMs: 1 });
  const failure = new Error('the listener failed');
  const kinds: string[] = [];
  sandbox.subscribe(() => {
    throw failure;
  });
  sandbox.subscribe(({ kind }) => kinds.push(kind));
  sandbox.accept();
  await sandbox.settled();
  expect(sandbox.events()).toMatchObject([{ delivered: true }]);
  expect(kinds).toContain('delivery.delivered');
  expect(log).toHaveBeenCalledWith(failure);
});

test('a reader of the stream that is too far behind is disconnected', async () => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => {});
  onTestFinished(() => log.mockRestore());
  const { url, sandbox } = await startSandbox();
  const path = `${url}/sandbox/stream`;
  const stream = request(path, { headers: { authorization: `Bearer ${sandbox.token}` } }).end();
  const [answer] = (await once(stream, 'response')) as [IncomingMessage];
  const cut = once(answer, 'error');
  // Without a reader, the sandbox would have to remember everything that the buffers on the way do not hold.
  const payload = { text: 'x'.repeat(10_000) };
  for (let n = 0; n < 11_000; n++) sandbox.emit('accept.confirmed', payload);
  answer.resume();
  expect(await cut).toMatchObject([{ code: 'ECONNRESET' }]);
});
