import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';

/** The relative path is the same from the source and from the built package. */
const FOLDER = new URL('../../dist/inspector/page/', import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

export const PAGE_HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    ...["script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"],
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    ...["require-trusted-types-for 'script'", "trusted-types 'none'"],
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
} as const;

export async function readPageFile(name: string): Promise<Response | undefined> {
  if (!/^(index\.html|assets\/[\w-]+\.(js|css|svg))$/.test(name)) return undefined;
  const bytes = await readFile(new URL(name, FOLDER)).catch(() => undefined);
  if (bytes === undefined) return undefined;
  const cached = name.startsWith('assets/') ? 'private, max-age=31536000, immutable' : 'no-store';
  return new Response(bytes, {
    headers: { 'content-type': TYPES[extname(name)] ?? '', 'cache-control': cached },
  });
}
