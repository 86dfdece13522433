/** Inputs that are worth a place of their own, and what must come of them. */

/** Bodies that are signed correctly. `isEvent`: whether they are accepted. */
export const OWN_BODIES: readonly { readonly text: string; readonly isEvent: boolean }[] = [
  {
    text: '{"id":"e1","type":"transfer.settled","created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: true,
  },
  // The last of two keys counts, as in JSON.parse.
  {
    text: '{"id":1,"id":"e2","type":"transfer.settled","created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: true,
  },
  {
    text: '{"id":"e3","id":1,"type":"transfer.settled","created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: false,
  },
  // A key of this name is a key, and gives the event no prototype.
  {
    text: '{"__proto__":{"id":"e4","type":"transfer.settled"},"created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: false,
  },
  {
    text: '{"id":"e5","type":"transfer.settled","created_at":"2026-07-14T09:30:00Z","payload":{"__proto__":{"a":1}}}',
    isEvent: true,
  },
  {
    text: '{"\\u0069d":"e6","type":"transfer\\u002esettled","created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: true,
  },
  // A number that no double holds is what JSON.parse makes of it.
  {
    text: '{"id":"e7","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{"a":1e999,"b":9007199254740993,"c":-0}}',
    isEvent: true,
  },
  // Half of a surrogate pair can be in a payload, and not in an id.
  {
    text: '{"id":"e8","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{"a":"\\ud800"}}',
    isEvent: true,
  },
  {
    text: '{"id":"e9\\ud800","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: false,
  },
  {
    text: '{"id":"e10\\u0000","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: false,
  },
  {
    text: '\ufeff{"id":"e11","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: true,
  },
  {
    text: '\ufeff\ufeff{"id":"e12","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{}}',
    isEvent: false,
  },
  {
    text: `{"id":"e13","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{"deep":${'['.repeat(5_000)}${']'.repeat(5_000)}}}`,
    isEvent: true,
  },
  {
    text: '{"id":"e14","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":[]}',
    isEvent: false,
  },
  {
    text: '{"id":"e15","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{},"delivered":null}',
    isEvent: false,
  },
  {
    text: '{"id":"e16","type":"redeem.failed","created_at":"2026-07-14T09:30:00Z","payload":{}}\0',
    isEvent: false,
  },
];

/** Values of the signature header that no receiver accepts. */
export const OWN_SIGNATURES: readonly string[] = [
  '0'.repeat(64),
  'f'.repeat(64),
  'A'.repeat(43),
  `${'A'.repeat(43)}=`,
  '='.repeat(44),
  '0'.repeat(63),
  '0'.repeat(65),
  `0x${'0'.repeat(64)}`,
  `${'0'.repeat(64)}\0`,
  '[object Object]',
  'sha256=',
  '\uff10'.repeat(64),
  `${'0'.repeat(63)}\u0661`,
  'A'.repeat(100_000),
  '-'.repeat(43),
  '/'.repeat(43),
];

/** Texts of `created_at`, some valid. */
export const OWN_TIMES: readonly string[] = [
  ...['2026-02-29T00:00:00Z', '2024-02-29T00:00:00Z', '1900-02-29T00:00:00Z', '2000-02-29T00:00:00Z'],
  ...[
    '0000-02-29T00:00:00Z',
    '9999-12-31T23:59:59.999999999Z',
    '2026-13-01T00:00:00Z',
    '2026-00-10T00:00:00Z',
  ],
  ...['2016-12-31T23:59:60Z', '2017-01-01T08:59:60+09:00', '2016-12-31T23:58:60Z', '2017-01-01T00:00:60Z'],
  ...['2016-12-31T18:59:60-05:00', '2016-12-31T23:59:61Z', '2026-07-14t09:30:00z', '2026-07-14 09:30:00Z'],
  ...[
    '2026-07-14T09:30:00',
    '2026-07-14',
    '2026-07-14T24:00:00Z',
    '2026-07-14T09:30:00+24:00',
    '+002026-07-14T09:30:00Z',
  ],
  ...[
    '2026-07-14T09:30:00.Z',
    '2026-07-14T09:30Z',
    '2026-7-14T09:30:00Z',
    '2026-07-14T09:30:00Z\n',
    ' 2026-07-14T09:30:00Z',
  ],
  ...[
    '\u0662026-07-14T09:30:00Z',
    '2026-07-14T09:30:00-00:00',
    '2026-04-31T09:30:00Z',
    '',
    'now',
    '1784021400',
  ],
];
