/** The adapter contract, part four: what handlers and observers do, and once-only effects. */
import assert from 'node:assert/strict';
import type { Behaviour } from './contract-receiver.js';
import {
  assertOutcome,
  assertProblem,
  type ContractCase,
  contractEvent,
  deliver,
} from './contract-sender.js';

const HANDLED = { status: 200, outcome: 'handled' };
const DUPLICATE = { status: 200, outcome: 'duplicate' };
const FAILED = { status: 500, code: 'ERR_HANDLER_FAILED' };
const TIMEOUT = { status: 500, code: 'ERR_HANDLER_TIMEOUT' };

const FAULTS: readonly {
  readonly name: string;
  readonly behaviour: Behaviour;
  readonly problem: { readonly status: number; readonly code: string };
}[] = [
  { name: 'throws', behaviour: 'throw', problem: FAILED },
  { name: 'throws text', behaviour: 'throw-text', problem: FAILED },
  { name: 'throws undefined', behaviour: 'throw-undefined', problem: FAILED },
  { name: 'never ends', behaviour: 'never-end', problem: TIMEOUT },
];

export const handlerCases: readonly ContractCase[] = [
  {
    name: 'a genuine delivery is handled, and the same again is a duplicate',
    async run(target) {
      const event = contractEvent();
      assertOutcome(await deliver(target, event), HANDLED);
      assertOutcome(await deliver(target, event), DUPLICATE);
      assertOutcome(await deliver(target, event), DUPLICATE);
    },
  },
  {
    name: 'of simultaneous deliveries exactly one is handled',
    async run(target) {
      const event = contractEvent({ behaviour: 'take-long' });
      const replies = await Promise.all(Array.from({ length: 8 }, () => deliver(target, event)));
      let handled = 0;
      for (const reply of replies) {
        if (reply.status === 503) assertProblem(reply, { status: 503, code: 'ERR_EVENT_BUSY' });
        else if (reply.text.includes('handled')) handled += 1;
        else assertOutcome(reply, DUPLICATE);
      }
      assert.equal(handled, 1, `${handled} of 8 simultaneous deliveries were handled.`);
      assertOutcome(await deliver(target, event), DUPLICATE);
    },
  },
  ...FAULTS.map(({ name, behaviour, problem }) => ({
    name: `a handler that ${name} gets 500, at every attempt`,
    async run(target: { readonly url: string }) {
      const event = contractEvent({ behaviour });
      assertProblem(await deliver(target, event), problem);
      assertProblem(await deliver(target, event), problem);
    },
  })),
  {
    name: 'a handler that rejects late gets 500, and brings nothing down',
    async run(target) {
      assertProblem(await deliver(target, contractEvent({ behaviour: 'reject-late' })), TIMEOUT);
      // While this one takes its time, the first rejects.
      assertOutcome(await deliver(target, contractEvent({ behaviour: 'take-long' })), HANDLED);
      assertOutcome(await deliver(target, contractEvent()), HANDLED);
    },
  },
  {
    name: 'a handler that fails once is run again by the next delivery',
    async run(target) {
      const event = contractEvent({ behaviour: 'throw-once' });
      assertProblem(await deliver(target, event), FAILED);
      assertOutcome(await deliver(target, event), HANDLED);
      assertOutcome(await deliver(target, event), DUPLICATE);
    },
  },
  {
    name: 'PermanentError gets 200 dead, and the same again too',
    async run(target) {
      const event = contractEvent({ behaviour: 'give-up' });
      assertOutcome(await deliver(target, event), { status: 200, outcome: 'dead' });
      assertOutcome(await deliver(target, event), { status: 200, outcome: 'dead' });
    },
  },
  {
    name: 'a payload that does not fit its schema gets 500',
    async run(target) {
      const problem = { status: 500, code: 'ERR_PAYLOAD_INVALID' };
      assertProblem(await deliver(target, contractEvent({ amount: 1 }, 'accept.confirmed')), problem);
      assertOutcome(await deliver(target, contractEvent({ amount: '1' }, 'accept.confirmed')), HANDLED);
    },
  },
  {
    name: 'an onOutcome that throws changes no reply',
    async run(target) {
      const event = contractEvent({ observer: 'throw' });
      assertOutcome(await deliver(target, event), HANDLED);
      assertOutcome(await deliver(target, event), DUPLICATE);
      const failing = contractEvent({ observer: 'throw', behaviour: 'throw' });
      assertProblem(await deliver(target, failing), FAILED);
    },
  },
];
