/** Runs both fuzzers and prints what they showed: `npm run fuzz -- --minutes 10`. */
import { type ChildProcess, fork } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readCount } from '../read-count.js';
import { addCounts, BATCH, notShown, type ReceiveReport } from './receive.js';
import { fuzzSockets, type SocketReport, shapesNotShown } from './sockets.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string' },
    inputs: { type: 'string' },
    requests: { type: 'string' },
    seed: { type: 'string' },
    input: { type: 'string' },
    connection: { type: 'string' },
  },
});

/** Half of a run has this seed, so that two runs can be compared. The other half has a seed of its own. */
const FIXED_SEED = 20_261;

/** What a round does when only the time is given. */
const ROUND = { inputs: 100_000, requests: 20_000 };

/** An input that takes longer never ends: a span of inputs takes a second. */
const SPAN = 10 * BATCH;
const SPAN_LIMIT_MS = 120_000;

const given = {
  minutes: readCount('--minutes', values.minutes),
  inputs: readCount('--inputs', values.inputs),
  requests: readCount('--requests', values.requests),
  seed: readCount('--seed', values.seed, { min: 0 }),
  input: readCount('--input', values.input, { min: 0 }),
  connection: readCount('--connection', values.connection, { min: 0 }),
};

/** Runs inputs in a process of their own. */
async function runInputs(seed: number, inputs: number): Promise<ReceiveReport> {
  const child = fork(fileURLToPath(new URL('./receive-process.ts', import.meta.url)), [], {
    execArgv: ['--import', 'tsx'],
  });
  const ended = once(child, 'exit').then(() => undefined);
  const total: ReceiveReport = { inputs: 0, findings: [], outcomes: {}, mutations: {} };
  let sum = total;
  for (let from = 0; from < inputs && sum.findings.length === 0; from += SPAN) {
    const span = { seed, from, to: Math.min(inputs, from + SPAN) };
    const part = await runSpan(child, span, ended);
    if (part === undefined) {
      const what = `the inputs ${span.from} to ${span.to} end the process or take more than ${SPAN_LIMIT_MS} ms`;
      return { ...sum, findings: [{ what, seed, index: from, steps: [], input: 'not known' }] };
    }
    sum = {
      inputs: sum.inputs + part.inputs,
      findings: part.findings,
      outcomes: addCounts(sum.outcomes, part.outcomes),
      mutations: addCounts(sum.mutations, part.mutations),
    };
  }
  child.disconnect();
  await ended;
  return sum;
}

async function runSpan(
  child: ChildProcess,
  span: object,
  ended: Promise<undefined>,
): Promise<ReceiveReport | undefined> {
  const answer = once(child, 'message').then(([report]) => report as ReceiveReport);
  child.send(span);
  const limit = setTimeout(() => child.kill('SIGKILL'), SPAN_LIMIT_MS);
  const report = await Promise.race([answer, ended]);
  clearTimeout(limit);
  return report;
}

interface Round {
  readonly seed: number;
  readonly inputs: number;
  readonly requests: number;
}

const sums = {
  ...{ inputs: 0, inputsMs: 0, requests: 0, requestsMs: 0, connections: 0, handled: 0 },
  ...({ outcomes: {}, mutations: {}, shapes: {}, statuses: {} } as {
    [Name in 'outcomes' | 'mutations' | 'shapes' | 'statuses']: Record<string, number>;
  }),
};

const list = (counts: Readonly<Record<string, number>>) =>
  Object.entries(counts)
    .sort(([, one], [, other]) => other - one)
    .map(([name, count]) => `${name} ${count.toLocaleString('en')}`)
    .join(', ');

const print = (line: string) => console.log(line);

function fail(line: string): void {
  print(`FAILED ${line}`);
  process.exitCode = 1;
}

function addInputs(report: ReceiveReport, ms: number): void {
  sums.inputs += report.inputs;
  sums.inputsMs += ms;
  sums.outcomes = addCounts(sums.outcomes, report.outcomes);
  sums.mutations = addCounts(sums.mutations, report.mutations);
  for (const { what, seed, index, steps, input } of report.findings) {
    fail(
      `receive: ${what}\n       --seed ${seed} --input ${index}; mutations: ${steps.join('; ')}\n       ${input}`,
    );
  }
}

function addRequests(report: SocketReport, ms: number): void {
  sums.requests += report.requests;
  sums.requestsMs += ms;
  sums.connections += report.connections;
  sums.handled += report.handled;
  sums.shapes = addCounts(sums.shapes, report.shapes);
  sums.statuses = addCounts(sums.statuses, report.statuses);
  const quarters = [0.25, 0.5, 0.75, 1].map((part) => report.heap[Math.ceil(report.heap.length * part) - 1]);
  const megabytes = quarters.map((sample) => ((sample?.bytes ?? 0) / 1e6).toFixed(2));
  print(
    `  heap of the servers after 25, 50, 75 and 100 % of ${report.requests.toLocaleString('en')} requests: ${megabytes.join(', ')} MB; ${report.growth.toFixed(1)} bytes a request`,
  );
  for (const { what, seed, index, shape } of report.findings) {
    const where =
      index === undefined
        ? ''
        : `\n       --seed ${seed} --connection ${index}; shape: ${shape ?? 'not known'}`;
    fail(`sockets: ${what}${where}`);
  }
}

async function timed<Value>(work: () => Promise<Value>): Promise<readonly [Value, number]> {
  const start = performance.now();
  return [await work(), performance.now() - start];
}

async function runRound({ seed, inputs, requests }: Round): Promise<void> {
  print(`seed ${seed}: ${inputs.toLocaleString('en')} inputs, ${requests.toLocaleString('en')} requests`);
  // At the same time: one waits for sockets while the other computes.
  const [received, answered] = await Promise.all([
    timed(() => runInputs(seed, inputs)),
    timed(() => fuzzSockets({ seed, requests })),
  ]);
  addInputs(...received);
  addRequests(...answered);
}

/** The rounds that were asked for: half of them with the fixed seed. */
function roundsOf(inputs: number, requests: number): readonly Round[] {
  const half = (count: number) => Math.ceil(count / 2 / BATCH) * BATCH;
  const round = { inputs: half(inputs), requests: half(requests) };
  return [
    { seed: FIXED_SEED, ...round },
    { seed: given.seed ?? randomInt(2 ** 31), ...round },
  ];
}

const { seed = FIXED_SEED, input, connection } = given;
if (input !== undefined) {
  const { fuzzReceive } = await import('./receive.js');
  addInputs(await fuzzReceive({ seed, from: input - (input % BATCH), to: input + 1 }), 0);
  print(
    `input ${input} of seed ${seed} and those before it in its batch: ${process.exitCode === 1 ? 'see above' : 'nothing found'}`,
  );
} else if (connection !== undefined) {
  addRequests(await fuzzSockets({ seed, requests: 1, from: connection }), 0);
  print(
    `connection ${connection} of seed ${seed}: ${process.exitCode === 1 ? 'see above' : 'nothing found'}`,
  );
} else {
  const end = performance.now() + (given.minutes ?? 0) * 60_000;
  const { inputs = ROUND.inputs, requests = ROUND.requests } = given;
  for (const round of roundsOf(inputs, requests)) await runRound(round);
  while (performance.now() < end && process.exitCode !== 1)
    await runRound({ seed: randomInt(2 ** 31), ...ROUND });
  const rate = (count: number, ms: number) => Math.round(count / (ms / 1_000)).toLocaleString('en');
  print(
    `\n${sums.inputs.toLocaleString('en')} inputs to receive, ${rate(sums.inputs, sums.inputsMs)} a second`,
  );
  print(`  outcomes: ${list(sums.outcomes)}`);
  print(`  mutations: ${list(sums.mutations)}`);
  print(
    `${sums.requests.toLocaleString('en')} requests on ${sums.connections.toLocaleString('en')} connections, ${rate(sums.requests, sums.requestsMs)} a second; ${sums.handled.toLocaleString('en')} events handled`,
  );
  print(`  statuses: ${list(sums.statuses)}`);
  const missing = [...notShown(sums), ...shapesNotShown(sums)];
  if (missing.length > 0) fail(`not shown: ${missing.join(', ')}`);
  print(process.exitCode === 1 ? 'FAILED' : 'ok: nothing found');
}
