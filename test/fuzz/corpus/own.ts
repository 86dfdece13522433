/** Inputs that are worth a place of their own, and what must come of them. */

const REST = '"created_at":"2026-07-14T09:30:00Z"';
const KNOWN = `"type":"redeem.failed",${REST}`;

/** Bodies of events. */
const EVENTS = [
  `{"id":"e1",${KNOWN},"payload":{}}`,
  // The last of two keys counts, as in JSON.parse.
  `{"id":1,"id":"e2",${KNOWN},"payload":{}}`,
  `{"id":"e5",${KNOWN},"payload":{"__proto__":{"a":1}}}`,
  `{"\\u0069d":"e6","type":"transfer\\u002esettled",${REST},"payload":{}}`,
  // A number that no double holds is what JSON.parse makes of it.
  `{"id":"e7",${KNOWN},"payload":{"a":1e999,"b":9007199254740993,"c":-0}}`,
  // Half of a surrogate pair can be in a payload, and not in an id.
  `{"id":"e8",${KNOWN},"payload":{"a":"\\ud800"}}`,
  `\ufeff{"id":"e11",${KNOWN},"payload":{}}`,
  `{"id":"e13",${KNOWN},"payload":{"deep":${'['.repeat(5_000)}${']'.repeat(5_000)}}}`,
];

const NO_EVENTS = [
  `{"id":"e3","id":1,${KNOWN},"payload":{}}`,
  // A key of this name is a key, and gives the event no prototype.
  `{"__proto__":{"id":"e4","type":"transfer.settled"},${REST},"payload":{}}`,
  `{"id":"e9\\ud800",${KNOWN},"payload":{}}`,
  `{"id":"e10\\u0000",${KNOWN},"payload":{}}`,
  `\ufeff\ufeff{"id":"e12",${KNOWN},"payload":{}}`,
  `{"id":"e14",${KNOWN},"payload":[]}`,
  `{"id":"e15",${KNOWN},"payload":{},"delivered":null}`,
  `{"id":"e16",${KNOWN},"payload":{}}\0`,
];

/** Bodies that are signed correctly. `isEvent`: whether they are accepted. */
export const OWN_BODIES: readonly { readonly text: string; readonly isEvent: boolean }[] = [
  ...EVENTS.map((text) => ({ text, isEvent: true })),
  ...NO_EVENTS.map((text) => ({ text, isEvent: false })),
];

/** Values of the signature header that no receiver accepts. */
export const OWN_SIGNATURES: readonly string[] = [
  ...['0'.repeat(64), 'f'.repeat(64), 'A'.repeat(43), `${'A'.repeat(43)}=`, '='.repeat(44)],
  ...['0'.repeat(63), '0'.repeat(65), `0x${'0'.repeat(64)}`, `${'0'.repeat(64)}\0`],
  ...['[object Object]', 'sha256=', '\uff10'.repeat(64), `${'0'.repeat(63)}\u0661`],
  ...['A'.repeat(100_000), '-'.repeat(43), '/'.repeat(43)],
];

/** Texts of `created_at`, some valid. */
export const OWN_TIMES: readonly string[] = [
  ...['2026-02-29T00:00:00Z', '2024-02-29T00:00:00Z', '1900-02-29T00:00:00Z', '2000-02-29T00:00:00Z'],
  ...['0000-02-29T00:00:00Z', '9999-12-31T23:59:59.999999999Z', '2026-13-01T00:00:00Z'],
  ...['2026-00-10T00:00:00Z', '2026-04-31T09:30:00Z', '2026-07-14T24:00:00Z', '2026-07-14T09:30:00+24:00'],
  ...['2016-12-31T23:59:60Z', '2017-01-01T08:59:60+09:00', '2016-12-31T23:58:60Z', '2017-01-01T00:00:60Z'],
  ...['2016-12-31T18:59:60-05:00', '2016-12-31T23:59:61Z', '2026-07-14t09:30:00z', '2026-07-14 09:30:00Z'],
  ...[
    '2026-07-14T09:30:00',
    '2026-07-14',
    '2026-07-14T09:30:00.Z',
    '2026-07-14T09:30Z',
    '2026-7-14T09:30:00Z',
  ],
  ...[
    '+002026-07-14T09:30:00Z',
    '2026-07-14T09:30:00Z\n',
    ' 2026-07-14T09:30:00Z',
    '\u0662026-07-14T09:30:00Z',
  ],
  ...['2026-07-14T09:30:00-00:00', '', 'now', '1784021400'],
];
