/** Upstash's REST interface in front of a real Redis: as much of it as its client uses. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Redis } from 'ioredis';

export async function startUpstash(redis: Redis) {
  // Its client gathers commands into pipelines, and asks that each answer stands for itself.
  const server = createServer(async (request, response) => {
    const body = await json(request);
    const whole = request.url === '/pipeline' ? (body as string[][]).map(run) : [run(body as string[])];
    const answers = await Promise.all(whole);
    const [answer = {}] = answers;
    // A command by itself that fails is a bad request; in a pipeline each answer says so of its own.
    if (request.url !== '/pipeline' && 'error' in answer) response.statusCode = 400;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(request.url === '/pipeline' ? answers : answer));
  });
  const run = ([command = '', ...values]: string[]) =>
    redis.call(command, ...values).then(
      (result) => ({ result: encode(result) }),
      (error: Error) => ({ error: error.message }),
    );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, stop: () => close(server) };
}

/** Text goes as base64, which the client asks for. */
function encode(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(encode);
  return typeof result === 'string' ? Buffer.from(result).toString('base64') : result;
}

async function close(server: Server) {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}
