/** A call of the inbox by one process: behind a network and a disk that can be slow, fail, or lose an answer. */
import type { Lease } from 'stablehooks';
import type { Promises } from './promises.js';
import type { Scenario } from './scenario.js';
import type { Store } from './transactional-store.js';
import { type Process, toText, type World } from './world.js';

export interface Port<Of = Store> {
  readonly world: World;
  readonly promises: Promises;
  readonly process: Process;
  /** The store, which all processes share. */
  readonly inbox: Of;
  readonly scenario: Scenario;
}

export interface Call<Answer> {
  readonly what: string;
  readonly id?: string | undefined;
  readonly effect: () => Answer | Promise<Answer>;
  /** Called in the turn of the effect, with what the store answered. */
  readonly onEffect: (answer: Answer) => void;
  /** The attempt that has no mark if the call fails before its effect. */
  readonly lease?: Lease | undefined;
}

export const LOST = 'The connection was lost.';

export async function callInbox<Answer>(port: Port<unknown>, call: Call<Answer>): Promise<Answer> {
  const { world, promises, process, scenario } = port;
  const { what, id, lease } = call;
  await world.hop(process, `asks the inbox: ${what}`, id);
  if (process.isCutOff) return await new Promise(() => undefined);
  if (world.strikes('inboxFails', scenario.faults.inboxFails)) {
    if (lease !== undefined) promises.notMarked(lease);
    await world.hop(process, `the inbox fails, nothing is done: ${what}`, id);
    throw new Error(LOST);
  }
  const answer = await world.effect(async () => {
    try {
      return takeEffect(port, call, await call.effect());
    } catch (error) {
      throw unexpected(port, call, error);
    }
  });
  if (world.strikes('inboxAnswerLost', scenario.faults.inboxAnswerLost)) {
    await world.hop(process, `the answer of the inbox is lost: ${what}`, id);
    throw new Error(LOST);
  }
  await world.hop(process, `the inbox answers: ${what}`, id);
  return answer;
}

/** The same for an inbox in the memory of the process: it answers immediately, and so do its failures. */
export function callNow<Answer>(port: Port<unknown>, call: Call<Answer>): Answer | Promise<Answer> {
  const { world, promises, process, scenario } = port;
  if (process.isCutOff) return new Promise(() => undefined);
  // The turn of a violation is the last one, and an inbox that answers immediately must let it end.
  if (world.violation !== undefined) throw new Error(LOST);
  if (world.strikes('inboxFails', scenario.faults.inboxFails)) {
    if (call.lease !== undefined) promises.notMarked(call.lease);
    world.note(process, `the inbox fails, nothing is done: ${call.what}`, call.id);
    throw new Error(LOST);
  }
  let answer: Answer | Promise<Answer>;
  try {
    answer = call.effect();
  } catch (error) {
    throw unexpected(port, call, error);
  }
  if (answer instanceof Promise) throw unexpected(port, call, 'It answers with a promise.');
  return takeEffect(port, call, answer);
}

function takeEffect<Answer>(
  { world, process }: Port<unknown>,
  { what, id, onEffect }: Call<Answer>,
  answer: Answer,
) {
  onEffect(answer);
  world.note(process, `takes effect: ${what} -> ${describe(answer)}`, id);
  return answer;
}

/** An error of the store itself. */
function unexpected(
  { world }: Port<unknown>,
  { what, id }: Pick<Call<never>, 'what' | 'id'>,
  error: unknown,
): unknown {
  world.violate('an inbox fails only when its connection does', `${what}: ${toText(error)}`, id);
  return error;
}

function describe(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) return String(answer);
  if (Array.isArray(answer)) {
    return answer.map((each) => (typeof each === 'string' ? each : each.event?.id)).join(' ') || 'nothing';
  }
  return 'state' in answer ? String(answer.state) : JSON.stringify(answer);
}
