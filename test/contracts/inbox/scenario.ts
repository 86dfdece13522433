/** Cases as data: steps that call the inbox, each with the answer that it must get. */
import assert from 'node:assert/strict';
import type { ClaimOptions, Inbox, InboxRecord, Lease, UnknownEvent } from 'stablehooks';
import { someEvent } from '../contract.js';
import { HOUR_MS, type TestedInbox, TYPE, test } from './given.js';

/**
 * Steps, separated by `;` or new lines. A step is `verb EVENT option = answer`.
 *
 * - `A` names an event, which is new in each scenario. It is created before `B`; `A1` and `A2` at the same time. A small
 *   letter is an event of another type. `A:k` is `A` with the ordering key `k`, and `A.1` the first lease of `A`.
 * - `claim` is answered by the attempt, or by the state that prevents it; `record` and `ignore` by the state of each
 *   event, by default `new`; `due` by the events that takeDue takes. `fail` retries now, `delay` in an hour, `kill` never.
 *   `later` in an hour, `toolate` when the event is too old for that.
 * - `lost A.1`: the lease changes nothing. `run A:k B:k`: exactly one event is due after the other, and then none.
 *   `is A`: state, attempts, last error. `get A field`: another field. `waits A`: whether it is due in an hour.
 *
 * In every scenario a refusal leaves the record as it was, and a lease has the id and key of its event.
 */
type Scenario = string;

/** One case for each entry: a rule, and the steps that show it. */
export const scenarios = (entries: Readonly<Record<string, Scenario>>) =>
  Object.entries(entries).map(([name, scenario]) => test(name, (inbox) => play(inbox, scenario)));

const OTHER_TYPE = 'mint.completed';

type Options = Partial<Pick<ClaimOptions, 'leaseMs' | 'early'> & Parameters<Inbox['takeDue']>[0]> & {
  readonly dueInMs?: number | null;
  readonly olderThanMs?: number;
};

const OPTIONS: Readonly<Record<string, Options>> = {
  lapsed: { leaseMs: 0 },
  early: { early: true },
  later: { dueInMs: HOUR_MS, olderThanMs: HOUR_MS },
  past: { dueInMs: -HOUR_MS },
  parked: { dueInMs: null },
  nothing: { limit: 0 },
  one: { limit: 1 },
  shown: { visibilityTimeoutMs: 0 },
  other: { types: [OTHER_TYPE] },
};

const FAILURE = new Error('The effect fails.');
const isFailure = (error: unknown) => error === FAILURE;

/** Answers after which nothing has changed. */
const REFUSALS = ['false', 'received', 'leased', 'failed', 'done', 'dead', 'parked'];

/** Runs the steps; fails with the step whose answer is wrong. */
export async function play(inbox: TestedInbox, scenario: Scenario): Promise<void> {
  const events = new Map<string, UnknownEvent>();
  const leases: Record<string, readonly Lease[]> = {};

  function eventOf(subject: string): UnknownEvent {
    const name = subject.replace(/[.:].*/, '');
    const letter = name.charAt(0).toUpperCase();
    const created_at = new Date(Date.UTC(2026, 0, letter.charCodeAt(0) - 64)).toISOString();
    const type = name.startsWith(letter) ? TYPE : OTHER_TYPE;
    const event = events.get(name) ?? someEvent({ created_at, type });
    events.set(name, event);
    return event;
  }

  const nameOf = ({ id }: UnknownEvent) => [...events].find(([, event]) => event.id === id)?.[0] ?? id;

  function leaseOf({ id }: UnknownEvent, subject: string): Lease {
    const number = /\.(\d)/.exec(subject)?.[1];
    return leases[id]?.at(number === undefined ? -1 : Number(number) - 1) ?? assert.fail('It has no lease.');
  }

  async function claim({ event, keys: [key], options }: Step): Promise<unknown> {
    const answer = await inbox.claim(event, { ...options, key });
    if (answer.state !== 'claimed') {
      const waitMs = 'retryAfterMs' in answer ? answer.retryAfterMs : HOUR_MS;
      assert.ok(waitMs > HOUR_MS / 2 && waitMs <= HOUR_MS, `\`retryAfterMs\` is ${waitMs}.`);
      return answer.state;
    }
    const { lease } = answer;
    const record = await inbox.find(event);
    assert.deepEqual([lease.id, lease.key, lease.attempt], [event.id, key, record.attempts]);
    assert.equal(lease.key ?? null, record.key);
    leases[event.id] = [...(leases[event.id] ?? []), lease];
    return lease.attempt;
  }

  async function transact(lease: Lease, effect: () => Promise<void>): Promise<boolean> {
    const { port } = inbox;
    assert.ok(port.transaction, 'The inbox has no `transaction`.');
    return port.transaction(lease, effect);
  }

  const fail = ({ lease }: Step, retryAfterMs: number | null, later?: { readonly maxAgeMs: number }) =>
    inbox.port.fail(lease(), { retryAfterMs, error: 'no', later });

  type Step = ReturnType<typeof parse>;

  const verbs: Readonly<Record<string, (step: Step) => unknown>> = {
    claim,
    record: async ({ page, keys, options }) => (await inbox.record(page, { ...options, keys })).join(' '),
    ignore: async ({ page }) => (await inbox.ignore(page)).join(' '),
    due: async ({ options }) => (await inbox.takeDue(options)).map(nameOf).toSorted().join(' ') || 'none',
    complete: ({ lease }) => inbox.port.complete(lease()),
    fail: (step) => fail(step, 0),
    delay: (step) => fail(step, HOUR_MS),
    kill: (step) => fail(step, null),
    later: (step) => fail(step, HOUR_MS, { maxAgeMs: HOUR_MS }),
    toolate: async (step) => (await fail(step, HOUR_MS, { maxAgeMs: 0 })) === 'dead',
    requeue: async ({ event }) => (await inbox.port.requeue(event.id)) > 0,
    discard: ({ event: { id } }) => inbox.port.discard({ ids: [id], by: 'ana', reason: 'booked' }),
    prune: ({ options: { olderThanMs = 0 } }) => inbox.port.prune({ olderThanMs }),
    transact: ({ lease }) => transact(lease(), async () => undefined),
    rollback: ({ lease }) =>
      assert.rejects(
        transact(lease(), () => Promise.reject(FAILURE)),
        isFailure,
      ),
    async lost({ subjects: [subject] }) {
      for (const end of ['complete', 'fail', 'delay', 'kill', 'later', 'toolate'])
        await run(`${end} ${subject} = false`);
    },
    async run({ subjects, page }) {
      for (const [index, subject] of subjects.entries()) {
        await run(`due = ${page.map(nameOf)[index]}`);
        await run(`claim ${subject}`);
        await run(`complete ${subject}`);
      }
      await run('due = none');
    },
    async is({ record }) {
      const { state, attempts, lastError } = await record();
      return `${state} ${attempts} ${lastError}`;
    },
    get: async ({ record, words: [, field] }) => (await record())[field as keyof InboxRecord],
    keeps: async ({ record, event }) => JSON.stringify((await record()).event) === JSON.stringify(event),
    waits: async ({ record }) => ((await record()).dueAt ?? 0) - Date.now() > HOUR_MS / 2,
    async history({ record }) {
      const { history } = await record();
      for (const { startedAt, endedAt } of history) {
        assert.ok(Math.abs(startedAt - Date.now()) < HOUR_MS, '`startedAt` is not a time in epoch ms.');
        assert.ok(endedAt >= startedAt, 'An attempt ended before it started.');
      }
      const entries = history.map(({ attempt, result, error }) => `${attempt} ${result} ${error}`);
      return entries.join(', ') || 'none';
    },
  };

  /** The answer of a step without one: each event is new, the claim is answered by an attempt, the rest works. */
  const usual = (verb: string, count: number) =>
    verb === 'record' || verb === 'ignore' ? Array(count).fill('new').join(' ') : /^(true|undefined|\d+)$/;

  function parse(text: string) {
    const [call = '', expected] = text.split(' = ').map((part) => part.trim());
    const [verb = '', ...words] = call.split(/\s+/);
    const subjects = words.filter((word) => /^[A-Za-z]\d?([.:]\w+)?$/.test(word));
    const page = subjects.map(eventOf);
    const [event = someEvent()] = page;
    const options = words
      .filter((word) => verb !== 'get' && !subjects.includes(word))
      .map((word) => OPTIONS[word] ?? assert.fail(`The option "${word}" is unknown.`));
    return {
      ...{ verb, words, expected, subjects, page, event },
      keys: subjects.map((subject) => /:(\w+)/.exec(subject)?.[1]),
      options: Object.assign({}, ...options) as Options,
      record: () => inbox.find(event),
      lease: () => leaseOf(event, subjects[0] ?? ''),
    };
  }

  async function run(text: string): Promise<void> {
    const step = parse(text);
    const { verb, page, expected = usual(verb, page.length) } = step;
    const act = verbs[verb] ?? assert.fail(`The step "${verb}" is unknown.`);
    const before = await Promise.all(page.map(({ id }) => inbox.port.find(id)));
    const actual = String(await act(step));
    if (typeof expected !== 'string') assert.match(actual, expected);
    else assert.equal(verb === 'is' ? actual.slice(0, expected.length) : actual, expected);
    const after = await Promise.all(page.map(({ id }) => inbox.port.find(id)));
    for (const [index, result] of actual.split(' ').entries()) {
      const isRefused = before[index] !== undefined && REFUSALS.includes(result);
      if (isRefused) assert.deepEqual(after[index], before[index], 'The record has changed.');
    }
  }

  for (const text of scenario.split(/[;\n]/).filter((step) => step.trim() !== '')) {
    await run(text).catch((cause) => {
      throw new Error(`"${text.trim()}" in "${scenario}": ${cause?.message}`, { cause });
    });
  }
}
