/** What can happen to a signature between the service's header and the text at hand. */
import { SIGNATURE_ENCODINGS, type SignatureFormat } from 'stablehooks';
import { type Change, listVariants, toAttempts, type Variant, whereItWorks } from './variant.js';

const part = 'signature';

const ATTEMPTS = [
  ...toAttempts<string>(
    { part, fix: 'Pass the value of the header alone, as it was received.' },
    {
      'it has white space around it': (text) => text.trim(),
      'it has quotes around it': (text) => /^(["'`])(.*)\1$/s.exec(text)?.[2],
      'it has the name of its header in front': (text) => /^[\w-]+:\s*(.+)$/s.exec(text)?.[1],
      'the header came more than once': (text) =>
        text.includes(',') ? text.split(',')[0]?.trim() : undefined,
    },
  ),
  ...toAttempts<string>(
    { part, fix: 'Set the text in front as `signaturePrefix` of the receiver, and here with --prefix.' },
    { 'it has a prefix': (text) => /^[\w-]+[=,:](?=.{43})(.+)$/s.exec(text)?.[1] },
  ),
  ...toAttempts<string>(
    { part, fix: 'Something treated the header as part of a URL. Take it from the request as it came.' },
    {
      'it is percent-encoded': (text) =>
        text.includes('%') ? whereItWorks(() => decodeURIComponent(text)) : undefined,
      'its plus signs became spaces': (text) => (text.includes(' ') ? text.replaceAll(' ', '+') : undefined),
    },
  ),
  ...toAttempts<string>(
    { part, fix: 'The digits were encoded twice. Encode the 32 bytes of the HMAC once.' },
    {
      'it is base64 of the hex digits': (text) =>
        text.length === 88 ? Buffer.from(text, 'base64').toString('latin1') : undefined,
      'it is hex of the base64 digits': (text) => Buffer.from(text, 'hex').toString('latin1') || undefined,
    },
  ),
];

/** The MACs (as hex) that the text may mean: first as it is under this format, then with changes. */
export function listMacs(signature: string, format: SignatureFormat): readonly Variant<string>[] {
  const strict = toMac(signature, format);
  const asGiven = strict === undefined ? [] : [{ value: strict, changes: [] }];
  const changed = listVariants(signature, { attempts: ATTEMPTS, depth: 2, keyOf: (text) => text }).flatMap(
    ({ value, changes }) => {
      const mac = toMac(value, {});
      return mac === undefined
        ? []
        : [{ value: mac, changes: changes.length > 0 ? changes : [otherFormat(format)] }];
    },
  );
  return [...asGiven, ...changed];
}

function otherFormat({ encoding, prefix }: SignatureFormat): Change {
  return {
    part,
    what: prefix ? 'it has no such prefix' : `it is not written as ${encoding}`,
    fix: prefix
      ? 'Leave --prefix and `signaturePrefix` out.'
      : 'Leave --encoding and `encoding` out: the lengths tell.',
  };
}

/** The 32 bytes that the text stands for, as hex; `undefined` when it is no signature of this format. */
function toMac(value: string, { encoding, prefix = '' }: SignatureFormat): string | undefined {
  if (!value.startsWith(prefix)) return undefined;
  const text = value.slice(prefix.length);
  for (const name of encoding === undefined ? SIGNATURE_ENCODINGS : [encoding]) {
    const mac = Buffer.from(text, name);
    const written = mac.toString(name);
    // Node ignores what it cannot decode: only a text that it would write itself counts.
    const same = name === 'hex' ? text.toLowerCase() : text.replace(/^(.{43})=$/, '$1');
    if (mac.length === 32 && same === written.replace(/=$/, '')) return mac.toString('hex');
  }
  return undefined;
}
