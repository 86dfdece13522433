/** The state machine: what each step answers in each state. */

import { test } from './given.js';
import { play, scenarios } from './scenario.js';

/** The ways to store an event A, its state and attempts, and the answers of a claim, takeDue and requeue. */
const SITUATIONS = [
  ['record A', 'received 0', '1', 'A', 'false'],
  ['record A later', 'received 0', '1', 'none', 'false'],
  ['record A parked', 'parked 0', '1', 'A', 'false'],
  ['ignore A', 'done 0', 'done', 'none', 'false'],
  ['claim A', 'leased 1', 'leased', 'none', 'false'],
  ['claim A lapsed', 'leased 1', '2', 'A', 'true'],
  ['claim A; fail A', 'failed 1', '2', 'A', 'true'],
  ['claim A; delay A', 'failed 1', 'failed', 'none', 'true'],
  ['claim A; complete A', 'done 1', 'done', 'none', 'false'],
  ['claim A; kill A', 'dead 1', 'dead', 'none', 'true'],
] as const;

/** A case that runs the steps after each situation. */
const inEachSituation = (name: string, stepsOf: (situation: (typeof SITUATIONS)[number]) => string) =>
  test(name, async (inbox) => {
    for (const situation of SITUATIONS) {
      const [store, state] = situation;
      await play(inbox, `${store}; is A = ${state}; ${stepsOf(situation)}`);
    }
  });

export const stateCases = [
  inEachSituation(
    'a claim is answered by the state of the event, and uses up no attempt unless it is answered claimed',
    ([, , claim]) =>
      claim === '1' || claim === '2' ? `claim A = ${claim}` : `claim A = ${claim}; claim A = ${claim}`,
  ),
  ...(['record', 'ignore'] as const).map((step) =>
    inEachSituation(
      `${step} answers for each event of a page, in order: new, or its state, and known events do not change`,
      ([, state]) => {
        const [known, added] = [state.split(' ')[0], step === 'record' ? 'received' : 'done'];
        return `${step} B A C = new ${known} new; ${step} C A D = ${added} ${known} new`;
      },
    ),
  ),
  inEachSituation(
    'takeDue takes received, failed, lapsed and parked events that are due, makes them received and keeps their attempts',
    ([, state, claim, due]) =>
      due === 'none'
        ? `due = none; is A = ${state}`
        : `due = A; is A = received ${Number(claim) - 1}; claim A = ${claim}`,
  ),
  inEachSituation(
    'a requeue makes a dead, failed or lapsed event due immediately, starts again at attempt 1, and changes no other event',
    ([, , , due, requeue]) =>
      requeue === 'true'
        ? 'requeue A; due = A; requeue A = false; claim A = 1'
        : `requeue A = false; due = ${due}`,
  ),
  test('takeDue takes only events of `types`, whatever their state, and leaves the others as they are', async (inbox) => {
    for (const [store, state, , due] of SITUATIONS) {
      const steps = `${store}; due = none; is A = ${state}; due other = ${due}`;
      await play(inbox, steps.replaceAll('A', 'a'));
    }
  }),
  ...scenarios({
    'a failed event can be claimed before its retry time with `early`':
      'claim A = 1; delay A; claim A = failed; claim A early = 2',
    'an event whose handler asked for later is received, due then, and has used up no attempt': `
      claim A = 1; fail A; claim A = 2; later A; is A = received 1 no; waits A; due = none; history A = 1 failed no, 2 later no
      lost A; claim A = 2; later A; claim A:k = 2; claim B:k = waiting; later A; due = B; claim B:k = 1; complete B
      claim A = 2; complete A; is A = done 2 null`,
    'an event that has asked for later for too long is dead':
      'claim A; toolate A; is A = dead 1 no; history A = 1 dead no; due = none; claim A = dead; lost A',
    'a completed event is done, and every later claim is answered done':
      'claim A = 1; complete A; is A = done 1 null; claim A = done; claim A:k early lapsed = done',
    'an ignored event is done without an attempt, and later claims are answered done': `
      ignore A = new; is A = done 0 null; history A = none; get A dueAt = null; get A key = null; keeps A
      claim A = done; claim A:k early lapsed = done; due = none; record A = done; prune = 1; ignore A = done`,
    'a lapsed lease can still complete its event until another claim':
      'claim A lapsed; complete A; is A = done 1',
    'after another claim of a lapsed lease, the old token can neither complete nor fail the event':
      'claim A lapsed = 1; claim A = 2; lost A.1; complete A',
    'after takeDue took a lapsed event, its old token can neither complete nor fail it':
      'claim A lapsed; due = A; is A = received 1; lost A; claim A = 2; lost A.1; complete A',
    'after the claim of another event of its key, a lapsed lease can neither complete nor fail its event':
      'claim A:k lapsed; claim B:k; lost A; complete B',
    'after a requeue, the token of an earlier attempt can neither complete nor fail the event':
      'claim A; kill A; requeue A; lost A; claim A = 1; lost A.1; complete A',
    'an attempt that has ended can neither complete nor fail its event again':
      'claim A; complete A; lost A; claim B; fail B; lost B; claim C; delay C; lost C; claim D; kill D; lost D',
    'a record has the history of the attempts that have ended, and what ended each': `
      claim A; fail A; claim A lapsed = 2; claim A lapsed = 3; history A = 1 failed no, 2 lapsed null
      due = A; claim A = 4; complete A; history A = 1 failed no, 2 lapsed null, 3 lapsed null, 4 done null`,
    'an event that takeDue returned keeps its error and its history until it ends again': `
      claim A; fail A; claim B lapsed; due = A B; is A = received 1 no; history A = 1 failed no
      history B = 1 lapsed null; claim A = 2; complete A; is A = done 2 null`,
    'an event that takeDue returned is not returned again for `visibilityTimeoutMs`, and can be claimed meanwhile':
      'record A; due = A; due = none; claim A = 1; record B; due shown = B; due = B',
    'takeDue does not return an event that was claimed since an earlier call left it for its limit':
      'record A past; record B; due one = A; claim B; due = none; is B = leased 1',
    'takeDue with `limit: 0` returns no event and leaves what is due':
      'record A:k; record B parked; due nothing = none; due = A B',
    'pruning drops the JSON of old done events, and their ids remain done': `
      claim A; complete A; ignore B; claim C; kill C; record D; prune later = 0; keeps A; prune = 2; prune = 0
      get A event = null; get B event = null; history A = none; claim A = done; claim B = done
      record A B C D = done done dead received; ignore A B C D = done done dead received; keeps C; due = D`,
  }),
];

export const transactionCases = scenarios({
  'a transaction marks the event done when its effect resolves, and not when it rejects':
    'claim A; rollback A; is A = leased 1; transact A; is A = done 1; transact A = false',
  'a transaction of a lease with a key makes the next event of the key due when its effect resolves, and not when it rejects':
    'claim A:k; claim B:k = waiting; rollback A; due = none; transact A; due = B',
  'a transaction whose lease is lost returns false':
    'claim A lapsed; claim A = 2; transact A.1 = false; is A = leased 2; transact A',
});
