import { createServer, type IncomingMessage, type Server } from 'node:http';
import { Readable } from 'node:stream';

/** A server for a fetch handler: Node's own Request and Response, and no framework. */
export function createFetchServer(handler: (request: Request) => Promise<Response>): Server {
  return createServer(async (incoming, outgoing) => {
    const request = toRequest(incoming);
    const response = await handler(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(Buffer.from(await response.arrayBuffer()));
    // Runtimes also discard a body that the handler did not read.
    if (!request.bodyUsed) await request.body?.pipeTo(new WritableStream()).catch(() => undefined);
  });
}

function toRequest(incoming: IncomingMessage): Request {
  const headers = new Headers();
  for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
    headers.append(incoming.rawHeaders[at] ?? '', incoming.rawHeaders[at + 1] ?? '');
  }
  const method = incoming.method ?? '';
  const url = `http://${incoming.headers.host}${incoming.url}`;
  if (method === 'GET' || method === 'HEAD') return new Request(url, { method, headers });
  const body = Readable.toWeb(incoming) as ReadableStream<Uint8Array>;
  return new Request(url, { method, headers, body, duplex: 'half' } as RequestInit);
}
