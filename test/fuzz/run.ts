/** Runs both fuzzers and prints what they showed: `npm run fuzz -- --minutes 10`. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { readCount } from '../read-count.js';
import { type FuzzReport, fuzzReceive, INPUT_KINDS } from './receive.js';
import { fuzzReceiveInProcess } from './receive-spans.js';
import { fuzzSockets, SOCKET_KINDS } from './sockets.js';
import { type Counts, count } from './steps.js';

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

/** Half of a run has this seed, so two runs can be compared. The other half has a new one. */
const FIXED_SEED = 20_261;

const { input, connection } = values;
const inputs = readCount('--inputs', values.inputs);
const requests = readCount('--requests', values.requests);
const minutes = readCount('--minutes', values.minutes) ?? Number.POSITIVE_INFINITY;
const seed = readCount('--seed', values.seed, { min: 0 });

const counts: Counts = {};
let failures = 0;
const shown = (number: number) => number.toLocaleString('en', { maximumFractionDigits: 1 });

function fail(line: string): void {
  console.log(`FAILED ${line}`);
  failures += 1;
  process.exitCode = 1;
}

/** Prints the numbers and the failure of one fuzzer, which `flag` replays. */
async function report<Report extends FuzzReport>(what: string, flag: string, run: () => Promise<Report>) {
  const start = performance.now();
  const result = await run();
  const rate = (result.sent / (performance.now() - start)) * 1_000;
  console.log(`  ${shown(result.sent)} ${what}, ${shown(rate)} a second`);
  for (const [name, more] of Object.entries(result.counts)) count(counts, name, more);
  if (result.failure !== undefined) fail(`${what}; replay by --seed and ${flag} PATH:\n${result.failure}`);
  return result;
}

async function runHalf(seed: number): Promise<void> {
  console.log(`seed ${seed}`);
  const until = performance.now() + (minutes / 2) * 60_000;
  // At the same time: one waits for sockets while the other computes.
  const [{ heap, growth, connections, handled }] = await Promise.all([
    report('requests', '--connection', () => fuzzSockets({ seed, requests: requests / 2, until })),
    report('inputs to receive', '--input', () => fuzzReceiveInProcess({ seed, inputs: inputs / 2, until })),
  ]);
  const megabytes = [0.25, 0.5, 0.75, 1].map(
    (part) => (heap[Math.ceil(heap.length * part) - 1]?.bytes ?? 0) / 1e6,
  );
  console.log(`  ${shown(connections)} connections, ${shown(handled)} events handled`);
  console.log(
    `  heap of the servers after each quarter: ${megabytes.map(shown).join(', ')} MB; ${shown(growth)} bytes a request`,
  );
}

/** One line for each group of counts, the most frequent kind first. */
function printCounts(): void {
  const groupOf = (name: string) => name.slice(0, name.lastIndexOf(': '));
  const sorted = Object.entries(counts).sort(([, one], [, other]) => other - one);
  for (const group of new Set(Object.keys(counts).map(groupOf))) {
    const kinds = sorted.filter(([name]) => groupOf(name) === group);
    const list = kinds.map(([name, count]) => `${name.slice(group.length + 2)} ${shown(count)}`);
    console.log(`  ${group}: ${list.join(', ')}`);
  }
}

if (input !== undefined) {
  await report('inputs', '--input', () => fuzzReceive({ seed: seed ?? FIXED_SEED, path: input, numRuns: 1 }));
} else if (connection !== undefined) {
  await report('requests', '--connection', () =>
    fuzzSockets({ seed: seed ?? FIXED_SEED, requests: 1, path: connection }),
  );
} else {
  await runHalf(FIXED_SEED);
  await runHalf(seed ?? randomInt(2 ** 31));
  printCounts();
  const missing = [...INPUT_KINDS, ...SOCKET_KINDS].filter((kind) => !(kind in counts));
  if (failures === 0 && missing.length > 0) fail(`not shown: ${missing.join(', ')}`);
  console.log(`${shown(inputs)} inputs and ${shown(requests)} requests: ${failures} findings`);
}
