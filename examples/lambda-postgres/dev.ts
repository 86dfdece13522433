/** For local use only: an HTTP server replaces the HTTP API, and a timer replaces the schedule. */
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { handler as healthz } from './healthz.js';
import { handler as hooks } from './hooks.js';
import { handler as poll } from './poll.js';

const { PORT = '3000' } = process.env;

const pollAgain = () => poll().then(console.log, (error) => console.error(error.message));
await pollAgain();
setInterval(pollAgain, 60_000);

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost');
  const event = {
    version: '2.0',
    rawPath: pathname,
    rawQueryString: '',
    headers: Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    ),
    requestContext: { http: { method: request.method ?? '', path: pathname } },
    body: (await buffer(request)).toString('base64'),
    isBase64Encoded: true,
  };
  const answer = pathname === '/healthz' ? await healthz() : await hooks(event);
  response.writeHead(answer.statusCode, { ...answer.headers }).end(answer.body);
});
server.listen(Number(PORT), () => console.log(`Listening on http://localhost:${PORT}/hooks`));
