/** Deno's own server with the fetch adapter. It runs the inbox contract as well. */
import { answer } from './answer.js';
import { inboxChecks } from './inbox-checks.js';

declare const Deno: {
  serve(
    options: {
      readonly port: number;
      readonly hostname: string;
      readonly onListen: (address: { readonly port: number }) => void;
    },
    handler: (request: Request) => Promise<Response>,
  ): unknown;
};

Deno.serve(
  { port: 0, hostname: '127.0.0.1', onListen: ({ port }) => console.log(`http://127.0.0.1:${port}`) },
  (request) => answer(request, inboxChecks),
);
