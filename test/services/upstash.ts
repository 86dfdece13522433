/** Upstash's REST interface in front of a real Redis: as much of it as its client uses for one command. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Redis } from 'ioredis';

export interface UpstashService {
  readonly url: string;
  stop(): Promise<void>;
}

export async function startUpstash(redis: Redis): Promise<UpstashService> {
  const server = createServer(async (request, response) => {
    const [command = '', ...values] = (await json(request)) as string[];
    const answer = await redis.call(command, ...values).then(
      (result) => ({ status: 200, body: { result: encode(result) } }),
      (error: Error) => ({ status: 400, body: { error: error.message } }),
    );
    response
      .writeHead(answer.status, { 'content-type': 'application/json' })
      .end(JSON.stringify(answer.body));
  });
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
