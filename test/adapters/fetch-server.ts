import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { Readable } from 'node:stream';

/** How a framework makes a web stream of Node's request. None of them discards a body that the handler did not read. */
export const BRIDGES = {
  'the platform': (incoming) => Readable.toWeb(incoming) as ReadableStream<Uint8Array>,
  'React Router 7': (incoming) =>
    new ReadableStream(
      {
        start(controller) {
          const close = () => {
            try {
              controller.close();
            } catch {}
          };
          incoming.on('data', (chunk) => {
            controller.enqueue(chunk);
            if ((controller.desiredSize ?? 0) <= 0) incoming.pause();
          });
          incoming
            .once('error', (error) => controller.error(error))
            .once('end', close)
            .once('close', close);
        },
        pull: () => void incoming.resume(),
        cancel: (reason) => void incoming.destroy(reason),
      },
      { highWaterMark: incoming.readableHighWaterMark, size: (chunk) => chunk?.byteLength ?? 0 },
    ),
  SvelteKit: (incoming) =>
    new ReadableStream({
      start(controller) {
        incoming.on('error', (error) => controller.error(error));
        incoming.on('end', () => controller.close());
        incoming.on('data', (chunk) => {
          controller.enqueue(chunk);
          if ((controller.desiredSize ?? 0) <= 0) incoming.pause();
        });
      },
      pull: () => void incoming.resume(),
      cancel: (reason) => void incoming.destroy(reason),
    }),
} satisfies Record<string, (incoming: IncomingMessage) => ReadableStream<Uint8Array>>;

/** A listener of Node for a fetch handler: Node's own Request and Response, and no framework. */
export function toListener(
  handler: (request: Request) => Promise<Response>,
  bridge: keyof typeof BRIDGES = 'the platform',
): RequestListener {
  return async (incoming, outgoing) => {
    const response = await handler(toRequest(incoming, bridge));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(Buffer.from(await response.arrayBuffer()));
  };
}

export function createFetchServer(...args: Parameters<typeof toListener>): Server {
  return createServer(toListener(...args));
}

function toRequest(incoming: IncomingMessage, bridge: keyof typeof BRIDGES): Request {
  const headers = new Headers();
  for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
    headers.append(incoming.rawHeaders[at] ?? '', incoming.rawHeaders[at + 1] ?? '');
  }
  const method = incoming.method ?? '';
  const url = `http://${incoming.headers.host}${incoming.url}`;
  if (method === 'GET' || method === 'HEAD') return new Request(url, { method, headers });
  return new Request(url, {
    method,
    headers,
    body: BRIDGES[bridge](incoming),
    duplex: 'half',
  } as RequestInit);
}
