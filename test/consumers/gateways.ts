/** Every gateway in front of one compiled Lambda handler, each at a path of its own: a program of its own. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createLambdaBridge, type Gateway, SHAPES } from '../adapters/lambda-bridge.js';

export const GATEWAYS: ReadonlyMap<string, Gateway> = new Map<string, Gateway>(
  (Object.keys(SHAPES) as Gateway['shape'][]).flatMap((shape, index) => [
    [`/${index}/text`, { shape, alwaysBase64: false }],
    [`/${index}/base64`, { shape, alwaysBase64: true }],
  ]),
);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { handler } = await import(pathToFileURL(join(process.argv[2] ?? '', 'dist/handler.js')).href);
  const bridges = new Map(
    [...GATEWAYS].map(([path, gateway]) => [path, createLambdaBridge(handler, gateway)]),
  );
  const server = createServer((request, response) => {
    const bridge = bridges.get(new URL(request.url ?? '', 'http://gateways').pathname);
    if (bridge === undefined) response.writeHead(404).end();
    else bridge.emit('request', request, response);
  });
  server.listen(0, '127.0.0.1', () => {
    console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
}
