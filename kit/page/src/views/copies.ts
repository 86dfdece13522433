import type { AttemptDetail } from '../../../src/inspector/api.js';
import { toShellWord } from '../../../src/shell-word.js';
import { decodeBase64, decodeUtf8 } from '../bytes';
import { toPlain } from '../plain';

const OWN_HEADERS: ReadonlySet<string> = new Set([
  ...['host', 'connection', 'content-length', 'transfer-encoding', 'expect', 'accept-encoding'],
]);

/** The command runs in a POSIX shell and sends exactly the same bytes and headers. */
export function toCurl({ request }: AttemptDetail): string {
  const text = toReadable(request.body);
  const names = Object.keys(request.headers);
  const headers = Object.entries(request.headers)
    .filter(([name]) => !OWN_HEADERS.has(name.toLowerCase()))
    // In curl, a header without a value ends with a semicolon.
    .map(([name, value]) => (value === '' ? `${name};` : `${name}: ${value}`));
  // Otherwise, curl adds the content type of a form.
  if (!names.some((name) => name.toLowerCase() === 'content-type')) headers.push('content-type:');
  // If the argument began with @, curl would treat it as a file name.
  const isArgument = text !== undefined && text.length <= MAX_ARGUMENT && !text.startsWith('@');
  const lines = [
    `curl --globoff --request ${toShellWord(request.method)} --url ${toShellWord(request.url)}`,
    ...headers.map((header) => `--header ${toShellWord(header)}`),
    `--data-binary ${isArgument ? toShellWord(text) : '@-'}`,
  ];
  const command = lines.join(' \\\n  ');
  return `${isArgument ? '' : `printf %s '${request.body}' | base64 -d | `}${command}\n`;
}

/** Linux rejects arguments of 128 KiB and more, and a character can take 4 bytes. */
const MAX_ARGUMENT = 30_000;

function toReadable(body: string): string | undefined {
  const text = decodeUtf8(decodeBase64(body));
  return text !== undefined && toPlain(text, { lines: true }) === text ? text : undefined;
}
