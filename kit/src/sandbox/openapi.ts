import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Context } from 'hono';

/** Answers with the OpenAPI document of the service as JSON. Its only server is this sandbox. */
export async function serveOpenapi(context: Context): Promise<Response> {
  const { origin } = new URL(context.req.url);
  loaded ??= load();
  return context.json({ ...(await loaded), servers: [{ url: origin, description: 'This sandbox' }] });
}

let loaded: Promise<object> | undefined;

/** The document of `stablehooks`. The parser is loaded only for a request. */
async function load(): Promise<object> {
  const path = createRequire(import.meta.url).resolve('stablehooks/openapi.yaml');
  const { parse } = await import('yaml');
  return parse(await readFile(path, 'utf8'));
}
