/** Runs both fuzzers and prints what they showed: `npm run fuzz -- --minutes 10`. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { readCount } from '../read-count.js';
import { addCounts, BATCH, fuzzReceive, notShown, type ReceiveReport } from './receive.js';
import { fuzzReceiveInProcess } from './receive-spans.js';
import { fuzzSockets, type SocketReport, shapesNotShown } from './sockets.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string' },
    inputs: { type: 'string', default: '1000000' },
    requests: { type: 'string', default: '200000' },
    seed: { type: 'string' },
    input: { type: 'string' },
    connection: { type: 'string' },
  },
});

/** Half of a run has this seed, so that two runs can be compared. The other half has a seed of its own. */
const FIXED_SEED = 20_261;

const inputs = readCount('--inputs', values.inputs);
const requests = readCount('--requests', values.requests);
const minutes = readCount('--minutes', values.minutes) ?? Number.POSITIVE_INFINITY;
const seed = readCount('--seed', values.seed, { min: 0 });
const input = readCount('--input', values.input, { min: 0 });
const connection = readCount('--connection', values.connection, { min: 0 });

const sums = {
  inputs: 0,
  inputsMs: 0,
  requests: 0,
  requestsMs: 0,
  connections: 0,
  handled: 0,
  findings: 0,
  outcomes: {} as Record<string, number>,
  mutations: {} as Record<string, number>,
  shapes: {} as Record<string, number>,
  statuses: {} as Record<string, number>,
};

const shown = (number: number) => number.toLocaleString('en');

const list = (counts: Readonly<Record<string, number>>) =>
  Object.entries(counts)
    .sort(([, one], [, other]) => other - one)
    .map(([name, count]) => `${name} ${shown(count)}`)
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
  sums.findings += report.findings.length;
  for (const { what, seed, index, steps, input } of report.findings) {
    fail(
      `receive: ${what}\n       --seed ${seed} --input ${index}; mutations: ${steps.join('; ')}\n       ${input}`,
    );
  }
}

function printHeap({ heap, requests: sent, growth }: SocketReport): void {
  const quarters = [0.25, 0.5, 0.75, 1].map((part) => heap[Math.ceil(heap.length * part) - 1]);
  const megabytes = quarters.map((sample) => ((sample?.bytes ?? 0) / 1e6).toFixed(2));
  print(
    `  heap of the servers after 25, 50, 75 and 100 % of ${shown(sent)} requests: ${megabytes.join(', ')} MB; ${growth.toFixed(1)} bytes a request`,
  );
}

function addRequests(report: SocketReport, ms: number): void {
  sums.requests += report.requests;
  sums.requestsMs += ms;
  sums.connections += report.connections;
  sums.handled += report.handled;
  sums.shapes = addCounts(sums.shapes, report.shapes);
  sums.statuses = addCounts(sums.statuses, report.statuses);
  sums.findings += report.findings.length;
  if (report.heap.length > 1) printHeap(report);
  for (const { kind, detail, seed, index, shape } of report.findings) {
    const what = detail === undefined ? kind : `${kind}: ${detail}`;
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

async function runHalf(seed: number): Promise<void> {
  const half = {
    seed,
    inputs: Math.ceil(inputs / 2),
    requests: Math.ceil(requests / 2),
    until: performance.now() + (minutes / 2) * 60_000,
  };
  print(`seed ${seed}: ${shown(half.inputs)} inputs, ${shown(half.requests)} requests`);
  // At the same time: one waits for sockets while the other computes.
  const [received, answered] = await Promise.all([
    timed(() => fuzzReceiveInProcess(half)),
    timed(() => fuzzSockets(half)),
  ]);
  addInputs(...received);
  addRequests(...answered);
}

if (input !== undefined) {
  const found = await fuzzReceive({ seed: seed ?? FIXED_SEED, from: input - (input % BATCH), to: input + 1 });
  addInputs(found, 0);
  print(`input ${input} and those before it in its batch: ${shown(sums.findings)} findings`);
} else if (connection !== undefined) {
  addRequests(await fuzzSockets({ seed: seed ?? FIXED_SEED, requests: 1, from: connection }), 0);
  print(`connection ${connection}: ${shown(sums.findings)} findings`);
} else {
  await runHalf(FIXED_SEED);
  await runHalf(seed ?? randomInt(2 ** 31));
  const rate = (count: number, ms: number) => shown(Math.round(count / (ms / 1_000)));
  print(`\n${shown(sums.inputs)} inputs to receive, ${rate(sums.inputs, sums.inputsMs)} a second`);
  print(`  outcomes: ${list(sums.outcomes)}`);
  print(`  mutations: ${list(sums.mutations)}`);
  print(
    `${shown(sums.requests)} requests on ${shown(sums.connections)} connections, ${rate(sums.requests, sums.requestsMs)} a second; ${shown(sums.handled)} events handled`,
  );
  print(`  statuses: ${list(sums.statuses)}`);
  const missing = [...notShown(sums), ...shapesNotShown(sums)];
  if (missing.length > 0) fail(`not shown: ${missing.join(', ')}`);
  print(
    `${shown(sums.inputs)} inputs and ${shown(sums.requests)} requests: ${shown(sums.findings)} findings`,
  );
}
