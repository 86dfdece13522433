import { request as requestHttp } from 'node:http';
import { type RunningServer, serve } from '../../http-server.js';
import { answer, createPlainReceiver, readBody, takeOnce, verifyRaw } from './wrong-receiver.js';

/** A right receiver behind a proxy that writes JSON anew, with an indent. */
export async function startPrettyPrintingProxy(secret: string): Promise<RunningServer> {
  const receiver = await serve(createPlainReceiver({ authentic: verifyRaw(secret), take: takeOnce }));
  const proxy = await serve(async (incoming, response) => {
    const body = (await readBody(incoming)) ?? Buffer.alloc(0);
    const pretty = body.length === 0 ? '' : JSON.stringify(JSON.parse(body.toString()), null, 2);
    const headers = { ...incoming.headers, 'content-length': Buffer.byteLength(pretty) };
    requestHttp(receiver.url, { method: incoming.method, headers, agent: false }, (reply) => {
      response.writeHead(reply.statusCode ?? 502);
      reply.pipe(response);
    })
      .on('error', () => answer(response, 502))
      .end(pretty);
  });
  return {
    url: proxy.url,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}
