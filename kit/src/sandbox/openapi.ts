import { createRequire } from 'node:module';
import type { Context } from 'hono';

export function serveOpenapi(context: Context): Response {
  const { origin } = new URL(context.req.url);
  const document: object = createRequire(import.meta.url)('stablehooks/openapi.json');
  return context.json({ ...document, servers: [{ url: origin, description: 'This sandbox' }] });
}
