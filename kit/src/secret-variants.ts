/** What can happen to a secret between the service's dashboard and the setting at hand. */
import { listVariants, toAttempts, toByteKey, type Variant, whereItWorks } from './variant.js';

const part = 'secret';

/** Applies a change to the secret's text, which need not be UTF-8: Latin-1 keeps every byte. */
function onText(
  change: (text: string) => string | undefined,
): (secret: Uint8Array) => Uint8Array | undefined {
  return (secret) => {
    const text = whereItWorks(() => change(Buffer.from(secret).toString('latin1')));
    return text ? Buffer.from(text, 'latin1') : undefined;
  };
}

/** The text without what the pattern matches; `undefined` where it matches nothing. */
function without(pattern: RegExp): (secret: Uint8Array) => Uint8Array | undefined {
  return onText((text) => (pattern.test(text) ? text.replace(pattern, '') : undefined));
}

const PASTED = toAttempts<Uint8Array>(
  { part, fix: 'Set the secret again, without what was pasted along with it.' },
  {
    'it has white space around it': onText((text) => text.trim()),
    'it has quotes around it': onText((text) => /^(["'`])(.*)\1$/s.exec(text)?.[2]),
    'it has the name of its variable in front': without(/^(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*\s*=\s*/),
    'it has a byte order mark in front': without(/^\xef\xbb\xbf/),
    'it is percent-encoded': onText((text) => (text.includes('%') ? decodeURIComponent(text) : undefined)),
  },
);

const LOST = toAttempts<Uint8Array>(
  {
    part,
    fix: 'The other side keys with more than the secret: have it trim what it reads from its file or setting.',
  },
  {
    'the other side has a newline at its end': onText((text) => `${text}\n`),
    'the other side has a CRLF at its end': onText((text) => `${text}\r\n`),
    'the other side has a space at its end': onText((text) => `${text} `),
    'the other side has double quotes around it': onText((text) => `"${text}"`),
    'the other side has single quotes around it': onText((text) => `'${text}'`),
  },
);

const DECODED = toAttempts<Uint8Array>(
  { part, fix: 'Pass the decoded bytes as the secret: `secret: Buffer.from(text, encoding)`.' },
  {
    'it is hex of the key': onText((text) =>
      isHex(text) ? Buffer.from(text, 'hex').toString('latin1') : undefined,
    ),
    'it is base64 of the key': onText((text) =>
      isBase64(text) ? Buffer.from(text, 'base64').toString('latin1') : undefined,
    ),
    'it has a prefix that is not part of the key': without(/^[A-Za-z]+_/),
  },
);

const ENCODED = toAttempts<Uint8Array>(
  { part, fix: 'The key is the text itself: pass it as it is, and do not decode it.' },
  {
    'it was decoded, and the key is its hex text': onText((text) =>
      Buffer.from(text, 'latin1').toString('hex'),
    ),
    'it was decoded, and the key is its base64 text': onText((text) =>
      Buffer.from(text, 'latin1').toString('base64'),
    ),
    'it was decoded, and the key is its base64url text': onText((text) =>
      Buffer.from(text, 'latin1').toString('base64url'),
    ),
  },
);

/** The secret at hand, and those that may have been meant. */
export function listSecrets(
  secret: Uint8Array,
  { depth }: { readonly depth: number },
): readonly Variant<Uint8Array>[] {
  return listVariants(secret, {
    attempts: [...PASTED, ...LOST, ...DECODED, ...ENCODED],
    depth,
    keyOf: toByteKey,
  }).filter(({ value }) => value.length > 0);
}

function isHex(text: string): boolean {
  return text.length % 2 === 0 && /^[0-9a-f]{2,}$/i.test(text);
}

function isBase64(text: string): boolean {
  return /^[0-9A-Za-z+/_-]{4,}={0,2}$/.test(text);
}
