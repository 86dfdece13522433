import type { AttemptDetail } from '../../../src/inspector/api.js';
import { toShellWord } from '../../../src/shell-word.js';
import { decodeBase64, decodeUtf8 } from '../bytes';
import { toPlain } from '../plain';

/** Headers that curl writes itself. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  ...['host', 'connection', 'content-length', 'transfer-encoding', 'expect', 'accept-encoding'],
]);
const DEFAULT_HEADER = 'x-service-signature';

/** A command for a POSIX shell that sends exactly these bytes, with these headers. */
export function toCurl({ request }: AttemptDetail): string {
  const text = toReadable(request.body);
  const names = Object.keys(request.headers);
  const headers = Object.entries(request.headers)
    .filter(([name]) => !OWN_HEADERS.has(name.toLowerCase()))
    // A header without a value ends with a semicolon.
    .map(([name, value]) => (value === '' ? `${name};` : `${name}: ${value}`));
  // Otherwise curl adds that of a form.
  if (!names.some((name) => name.toLowerCase() === 'content-type')) headers.push('content-type:');
  // In the argument, a first @ would be a file's name.
  const isArgument = text !== undefined && text.length <= MAX_ARGUMENT && !text.startsWith('@');
  const lines = [
    `curl --globoff --request ${toShellWord(request.method)} --url ${toShellWord(request.url)}`,
    ...headers.map((header) => `--header ${toShellWord(header)}`),
    `--data-binary ${isArgument ? toShellWord(text) : '@-'}`,
  ];
  const command = lines.join(' \\\n  ');
  return `${isArgument ? '' : `printf %s '${request.body}' | base64 -d | `}${command}\n`;
}

/** Linux refuses arguments of 128 KiB and more; a character has up to 4 bytes. */
const MAX_ARGUMENT = 30_000;

/** The request as JSON; `Buffer.from(body, encoding)` gives its bytes. */
export function toFixture({ request: { method, url, headers, body } }: AttemptDetail): string {
  const text = toReadable(body);
  const content = text === undefined ? { encoding: 'base64', body } : { encoding: 'utf8', body: text };
  return `${JSON.stringify({ method, url, headers, ...content }, null, 2)}\n`;
}

/** A test that signs these bytes with its own secret, and expects the endpoint to accept them. */
export function toTest({ eventId, type, request, signatureHeader }: AttemptDetail): string {
  const text = toReadable(request.body);
  const body =
    text === undefined
      ? `Buffer.from(${toLiteral(request.body)}, 'base64')`
      : `new TextEncoder().encode(\n    ${toLiteral(text)},\n  )`;
  const isSignature = (name: string) => name.toLowerCase() === signatureHeader.toLowerCase();
  const signature = Object.entries(request.headers).find(([name]) => isSignature(name))?.[1] ?? '';
  const [, prefix = '', value = ''] = /^(.*?)([0-9a-f]{64}|[\w+/-]{43}=?)$/i.exec(signature) ?? [];
  const options = [
    'secret',
    `url: ${toLiteral(request.url)}`,
    ...(signatureHeader.toLowerCase() === DEFAULT_HEADER ? [] : [`header: ${toLiteral(signatureHeader)}`]),
    ...(prefix === '' ? [] : [`prefix: ${toLiteral(prefix)}`]),
    ...(value === '' || value.length === 64
      ? []
      : [`encoding: '${value.endsWith('=') || /[+/]/.test(value) ? 'base64' : 'base64url'}'`]),
  ];
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signedRequest } from 'stablehooks/testing';

const secret = process.env['STABLEHOOKS_SECRET'] ?? 'the secret of the endpoint';

test(${toLiteral(`${type} ${eventId} is accepted`)}, async () => {
  const body = ${body};
  const signed = await signedRequest(body, {
    ${options.join(',\n    ')},
  });
  const response = await fetch(signed.url, signed);
  assert.equal(response.ok, true, \`answered \${response.status}: \${await response.text()}\`);
});
`;
}

/** The text of a body (base64), if every byte of it can be seen. */
function toReadable(body: string): string | undefined {
  const text = decodeUtf8(decodeBase64(body));
  return text !== undefined && toPlain(text, { lines: true }) === text ? text : undefined;
}

/** A string of TypeScript, with what is hidden in it as escapes. */
function toLiteral(text: string): string {
  return toPlain(JSON.stringify(text));
}
