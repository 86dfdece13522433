/** The adapter contract, part five: senders that hang up, and connections that serve more than one delivery. */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { SIGNATURE_HEADER } from '../core/signature.js';
import { CONTRACT_MAX_BODY_BYTES } from './contract-receiver.js';
import {
  assertOutcome,
  assertProblem,
  bytesOf,
  type ContractCase,
  contractEvent,
  deliver,
  openDelivery,
  type Sending,
  type Target,
} from './contract-sender.js';

const HANDLED = { status: 200, outcome: 'handled' };

export const connectionCases: readonly ContractCase[] = [
  {
    name: 'a body cut off half way runs nothing, and the whole delivery is then handled',
    async run(target) {
      const event = contractEvent({ padding: 'x'.repeat(200_000) });
      const body = bytesOf(event);
      const { socket, closed } = await openDelivery(target, { body, until: 100_000 });
      socket.end();
      await closed;
      assertOutcome(await deliver(target, event), HANDLED);
    },
  },
  {
    name: 'a sender that resets the connection half way disturbs nobody',
    async run(target) {
      for (let round = 0; round < 5; round++) {
        const body = bytesOf(contractEvent());
        const { socket, closed } = await openDelivery(target, { body, until: body.length >> 1 });
        socket.resetAndDestroy();
        await closed;
      }
      assertOutcome(await deliver(target, contractEvent()), HANDLED);
    },
  },
  {
    name: 'a sender that hangs up before the reply gets the effect once',
    async run(target) {
      const event = contractEvent({ behaviour: 'take-long' });
      const { socket, closed } = await openDelivery(target, { body: bytesOf(event) });
      // By now one of the two runs; the other was told so.
      const probe = await deliver(target, event);
      socket.destroy();
      await closed;
      if (probe.status !== 200) await untilDone(target, event);
      assertOutcome(await deliver(target, event), { status: 200, outcome: 'duplicate' });
    },
  },
  {
    name: 'a connection serves the next delivery after a forged one, whose body nobody read',
    async run(target) {
      const forged = { headers: { [SIGNATURE_HEADER]: '0' } };
      await onOneConnection(async (agent) => {
        const content = contractEvent({ padding: 'x'.repeat(300_000) });
        const reply = await deliver(target, content, { ...forged, agent });
        assertProblem(reply, { status: 401, code: 'ERR_SIGNATURE_MALFORMED' });
        assertOutcome(await deliver(target, contractEvent(), { agent }), HANDLED);
        const again = await deliver(target, contractEvent(), { ...forged, agent });
        assertProblem(again, { status: 401, code: 'ERR_SIGNATURE_MALFORMED' });
        assertOutcome(await deliver(target, contractEvent(), { agent }), HANDLED);
      });
    },
  },
  {
    name: 'a connection serves the next delivery after one that was too large',
    async run(target) {
      const whole = Buffer.alloc(CONTRACT_MAX_BODY_BYTES + 500_000, 'x');
      const chunked: Sending = { body: [whole.subarray(0, 900_000), whole.subarray(900_000)] };
      for (const sending of [{}, chunked]) {
        await onOneConnection(async (agent) => {
          const reply = await deliver(target, whole, { ...sending, agent });
          assertProblem(reply, { status: 413, code: 'ERR_BODY_TOO_LARGE' });
          assertOutcome(await deliver(target, contractEvent(), { agent }), HANDLED);
        });
      }
    },
  },
];

async function onOneConnection(task: (agent: Agent) => Promise<void>): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    await task(agent);
  } finally {
    agent.destroy();
  }
}

/** Asks again as long as the event is busy; the contract's slowest handler bounds that. */
async function untilDone(target: Target, event: unknown): Promise<void> {
  const deadline = Date.now() + 5_000;
  for (let reply = await deliver(target, event); reply.status !== 200; reply = await deliver(target, event)) {
    assertProblem(reply, { status: 503, code: 'ERR_EVENT_BUSY' });
    assert.ok(Date.now() < deadline, 'The event stayed busy after its sender hung up.');
  }
}
