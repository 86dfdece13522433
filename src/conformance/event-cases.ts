/** The adapter contract, part three: authentic bytes that are an event, an unknown one, or none. */
import assert from 'node:assert/strict';
import {
  assertOutcome,
  assertProblem,
  bytesOf,
  type ContractCase,
  contractEvent,
  deliver,
  send,
  signedHeaders,
} from './contract-sender.js';
import { withInvalidByte } from './signature-cases.js';

const HANDLED = { status: 200, outcome: 'handled' };
const MALFORMED = { status: 400, code: 'ERR_EVENT_MALFORMED' };

/** Authentic, and no event. */
const NO_EVENT: readonly { readonly name: string; readonly body: () => unknown }[] = [
  { name: 'not JSON', body: () => '{"id":' },
  { name: 'white space', body: () => ' ' },
  { name: 'an array', body: () => [contractEvent()] },
  { name: 'null', body: () => null },
  { name: 'a number', body: () => 42 },
  { name: 'a string of JSON', body: () => JSON.stringify(JSON.stringify(contractEvent())) },
  { name: 'arrays nested 100,000 deep', body: () => '['.repeat(100_000) },
  { name: 'closed arrays nested 100,000 deep', body: () => '['.repeat(100_000) + ']'.repeat(100_000) },
  { name: 'invalid UTF-8', body: () => withInvalidByte(JSON.stringify(contractEvent({ word: '\ufffd' }))) },
  { name: 'form fields', body: () => 'id=evt_1&type=transfer.settled' },
];

/** Fields that make an event no event; `undefined` leaves the field out. */
const WRONG_FIELDS: readonly { readonly name: string; readonly fields: Readonly<Record<string, unknown>> }[] =
  [
    { name: 'no id', fields: { id: undefined } },
    { name: 'an empty id', fields: { id: '' } },
    { name: 'a number for an id', fields: { id: 7 } },
    { name: 'an id without end', fields: { id: 'e'.repeat(10_000) } },
    { name: 'no type', fields: { type: undefined } },
    { name: 'an object for a type', fields: { type: {} } },
    { name: 'no created_at', fields: { created_at: undefined } },
    { name: 'a created_at that is no date', fields: { created_at: 'yesterday' } },
    { name: 'a created_at on no calendar', fields: { created_at: '2026-02-30T00:00:00Z' } },
    { name: 'a created_at in epoch ms', fields: { created_at: 1_784_000_000_000 } },
    { name: 'no payload', fields: { payload: undefined } },
    { name: 'an array for a payload', fields: { payload: [] } },
    { name: 'null for a payload', fields: { payload: null } },
    { name: 'text for delivered', fields: { delivered: 'yes' } },
  ];

export const eventCases: readonly ContractCase[] = [
  ...NO_EVENT.map(({ name, body }) => ({
    name: `${name}, signed, gets 400`,
    async run(target: { readonly url: string }) {
      assertProblem(await deliver(target, body()), MALFORMED);
    },
  })),
  ...WRONG_FIELDS.map(({ name, fields }) => ({
    name: `an event with ${name} gets 400`,
    async run(target: { readonly url: string }) {
      assertProblem(await deliver(target, { ...contractEvent(), ...fields }), MALFORMED);
    },
  })),
  {
    name: 'an empty body, signed, gets 400',
    async run(target) {
      assertProblem(await deliver(target, ''), MALFORMED);
    },
  },
  {
    name: 'no body at all, signed as empty, gets 400',
    async run(target) {
      const { 'content-type': _, ...headers } = await signedHeaders(bytesOf(''));
      assertProblem(await send(target, { headers: { ...headers, 'content-length': '0' } }), MALFORMED);
    },
  },
  {
    name: 'extra keys are no matter',
    async run(target) {
      const event = { ...contractEvent(), livemode: true, api_version: '2027-01-01', delivered: false };
      assertOutcome(await deliver(target, event), HANDLED);
    },
  },
  {
    name: 'a deeply nested payload crashes nothing',
    async run(target) {
      const deep = '['.repeat(50_000) + ']'.repeat(50_000);
      const text = JSON.stringify(contractEvent({ deep: 0 })).replace('"deep":0', `"deep":${deep}`);
      const reply = await deliver(target, text);
      // An inbox that writes the event as JSON may refuse it; either way it is an answer.
      assert.ok([200, 400].includes(reply.status), `The reply was ${reply.status}.`);
      assertOutcome(await deliver(target, contractEvent()), HANDLED);
    },
  },
  {
    name: '__proto__ in a payload pollutes nothing',
    async run(target) {
      const text = JSON.stringify(contractEvent({ raw: 0 })).replace(
        '"raw":0',
        '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}',
      );
      assertOutcome(await deliver(target, text), HANDLED);
      assertOutcome(await deliver(target, contractEvent()), HANDLED);
    },
  },
  {
    name: 'an unknown type is parked with 200, however often it comes',
    async run(target) {
      const event = { ...contractEvent(), type: 'card.frozen' };
      assertOutcome(await deliver(target, event), { status: 200, outcome: 'parked' });
      assertOutcome(await deliver(target, event), { status: 200, outcome: 'parked' });
    },
  },
  {
    name: 'a type that is a name of Object.prototype is unknown like any other',
    async run(target) {
      for (const type of ['__proto__', 'constructor', 'toString']) {
        const event = { ...contractEvent(), type };
        assertOutcome(await deliver(target, event), { status: 200, outcome: 'parked' });
      }
    },
  },
  {
    name: 'a known type without a handler is ignored with 200',
    async run(target) {
      const event = contractEvent({}, 'redeem.failed');
      assertOutcome(await deliver(target, event), { status: 200, outcome: 'ignored' });
    },
  },
];
