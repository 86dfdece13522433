/** Bun's own server with the fetch adapter. */
import { answer } from './answer.js';

declare const Bun: {
  serve(options: {
    readonly port: number;
    readonly hostname: string;
    readonly fetch: (request: Request) => Promise<Response>;
  }): { readonly port: number };
};

const { port } = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer });
console.log(`http://127.0.0.1:${port}`);
