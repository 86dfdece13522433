/** Makes the story of a failure short: a smaller scenario that fails in the same way, told in its trace. */
import type { Answer, Runner } from './runner.js';
import type { Scenario } from './scenario.js';
import { START_MS } from './world.js';

/** How many orders of a smaller scenario are tried, divided by its events: fewer take less time. */
const EVENT_ORDERS = 100;

/** The smallest scenario that was found, and its answer with a trace. */
export interface Story {
  readonly scenario: Scenario;
  readonly answer: Answer;
}

/** How a scenario failed: the promise that it violates, or why it has no result. */
export function failureOf(answer: Answer): string | undefined {
  return 'breakdown' in answer ? answer.breakdown : answer.violation?.promise;
}

/** @param first - how the scenario failed. It is told if a run that only took too long does not fail again. */
export async function shrink(
  scenario: Scenario,
  first: Answer,
  { run }: Pick<Runner, 'run'>,
): Promise<Story> {
  const failure = failureOf(first);
  if (failure === undefined) throw new Error('This scenario does not fail.');

  /** The candidate in an order that fails in the same way. */
  async function failing(candidate: Scenario): Promise<Scenario | undefined> {
    const orders = Math.ceil(EVENT_ORDERS / candidate.events.length);
    for (let order = 0; order < orders; order++) {
      const ordered = { ...candidate, order };
      if (failureOf(await run(ordered)) === failure) return ordered;
    }
    return undefined;
  }

  let smallest = scenario;
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false;
    for (const step of stepsOf(smallest)) {
      const candidate = step(smallest);
      const found = candidate && (await failing(candidate));
      if (found === undefined) continue;
      smallest = found;
      isSmaller = true;
    }
  }
  const last = await run(smallest, { keepsTrace: true });
  return { scenario: smallest, answer: failureOf(last) === failure ? last : first };
}

type Step = (scenario: Scenario) => Scenario | undefined;

/** The parts that can be removed. A step returns `undefined` if its part was already removed. */
function* stepsOf({ events, faults, serviceFaults, hosts }: Scenario): Generator<Step> {
  const half = Math.floor(events.length / 2);
  if (half > 1) {
    yield (now) => ({ ...now, events: now.events.slice(0, half) });
    yield (now) => (now.events.length > half ? { ...now, events: now.events.slice(half) } : undefined);
  }
  for (const event of events) {
    yield (now) =>
      now.events.includes(event) && now.events.length > 1
        ? { ...now, events: now.events.filter((each) => each !== event) }
        : undefined;
  }
  for (const fault of Object.keys(faults)) {
    yield (now) => (fault in now.faults ? { ...now, faults: without(now.faults, fault) } : undefined);
  }
  for (const fault of Object.keys(serviceFaults)) {
    yield (now) =>
      fault in now.serviceFaults ? { ...now, serviceFaults: without(now.serviceFaults, fault) } : undefined;
  }
  if (hosts.length > 1) yield (now) => ({ ...now, hosts: now.hosts.slice(1) });
  yield (now) =>
    now.hosts.some(({ skewMs }) => skewMs !== 0)
      ? { ...now, hosts: now.hosts.map((host) => ({ ...host, skewMs: 0 })) }
      : undefined;
  yield (now) =>
    now.hosts.some(({ lacks }) => lacks.length > 0)
      ? { ...now, hosts: now.hosts.map((host) => ({ ...host, lacks: [] })) }
      : undefined;
  yield (now) => (now.poller === null ? undefined : { ...now, poller: null });
  yield (now) => (now.hasQueue ? { ...now, hasQueue: false } : undefined);
  yield (now) => (now.hasKeys ? { ...now, hasKeys: false } : undefined);
  yield (now) => (now.latency.slow > 0 ? { ...now, latency: { ...now.latency, slow: 0 } } : undefined);
  yield (now) =>
    now.sandbox.endpoints > 1 ? { ...now, sandbox: { ...now.sandbox, endpoints: 1 } } : undefined;
  const quiet = { stepsMs: [], failures: 0, permanent: false, hangs: false } as const;
  for (const event of events) {
    const isQuiet = event.stepsMs.length + event.failures === 0 && !event.permanent && !event.hangs;
    if (isQuiet) continue;
    yield (now) =>
      now.events.includes(event)
        ? { ...now, events: now.events.map((each) => (each === event ? { ...each, ...quiet } : each)) }
        : undefined;
  }
}

function without<Part extends object>(part: Part, name: string): Part {
  return Object.fromEntries(Object.entries(part).filter(([each]) => each !== name)) as Part;
}

/** Up to so many lines are told whole; of a longer trace, those about the event and about processes. */
const WHOLE_LINES = 80;

export function tell({ scenario, answer }: Story): string {
  const failure = failureOf(answer);
  const { trace } = answer;
  const violation = 'breakdown' in answer ? undefined : answer.violation;
  const what =
    'breakdown' in answer
      ? `no result, but ${failure}. ${answer.details}`
      : `"${failure}" does not hold. ${violation?.details}`;
  const { events, faults, serviceFaults, hosts, inbox, receiver, poller, redrive } = scenario;
  const isAbout = (line: (typeof trace)[number]) =>
    line.id === violation?.id || (line.id === undefined && !/due|timer/.test(line.text));
  const lines = trace.length <= WHOLE_LINES ? trace : trace.filter(isAbout);
  return [
    `Seed ${scenario.seed}: ${what}`,
    `${events.length} events, hosts: ${JSON.stringify(hosts)}, inbox: ${inbox}, queue: ${scenario.hasQueue}, keys: ${scenario.hasKeys}`,
    `receiver: ${JSON.stringify(receiver)}, redrive: ${JSON.stringify(redrive)}`,
    `poller: ${JSON.stringify(poller)}`,
    `faults: ${JSON.stringify(faults)}, of the service: ${JSON.stringify(serviceFaults)}`,
    ...events.map((event, index) => `event ${index}: ${JSON.stringify(event)}`),
    ...lines.map(
      (line) =>
        `${((line.at - START_MS) / 1000).toFixed(3).padStart(9)} s  ${line.process.padEnd(12)} ${line.text}${line.id === undefined ? '' : ` (${line.id})`}`,
    ),
    `Replay it: npm run simulate -- --seed ${scenario.seed}`,
  ].join('\n');
}
