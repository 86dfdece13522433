/** Bun's own server with the fetch adapter. It runs the inbox contract as well. */
import { answer } from './answer.js';
import { inboxChecks } from './inbox-checks.js';

declare const Bun: {
  serve(options: {
    readonly port: number;
    readonly hostname: string;
    readonly idleTimeout: number;
    readonly fetch: (request: Request) => Promise<Response>;
  }): { readonly port: number };
};

const { port } = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  // Bun closes a connection after 10 s without bytes; the checks take longer on a busy machine.
  idleTimeout: 120,
  fetch: (request) => answer(request, inboxChecks),
});
console.log(`http://127.0.0.1:${port}`);
