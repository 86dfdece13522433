/** `npm run journeys`: the files and functions of ours that one event runs through, counted by V8's coverage. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type Profiler, Session } from 'node:inspector/promises';
import type { AddressInfo } from 'node:net';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import express from 'express';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { root } from './source.js';

interface Journey {
  readonly name: string;
  /** Runs one event and returns what V8 counted. */
  readonly run: () => Promise<readonly Profiler.ScriptCoverage[]>;
}

/** A file that functions were called in. */
interface Visit {
  /** The source file, as a path from the root. */
  readonly file: string;
  readonly functions: number;
  readonly calls: number;
}

const secret = 'whsec_journeys';

const JOURNEYS: readonly Journey[] = [
  { name: 'an Express delivery', run: deliverToExpress },
  { name: 'a missed event, from list to handler', run: catchUp },
];

for (const { name, run: runJourney } of JOURNEYS) {
  const visits = visitsOf(await runJourney());
  const sum = (count: (visit: Visit) => number) => visits.reduce((total, visit) => total + count(visit), 0);
  const [functions, calls] = [sum((visit) => visit.functions), sum((visit) => visit.calls)];
  console.log(`\n${name}: ${functions} functions in ${visits.length} files, ${calls} calls\n`);
  const width = Math.max(4, ...visits.map(({ file }) => file.length));
  const print = (...[file, ...counts]: readonly [string, ...string[]]) =>
    console.log(`  ${file.padEnd(width)}${counts.map((count) => count.padStart(11)).join('')}`);
  print('file', 'functions', 'calls');
  for (const visit of visits) print(visit.file, String(visit.functions), String(visit.calls));
  if (visits.length === 0) throw new Error(`V8 counted no function of ${name}.`);
}

/** A delivery that is handled, with the memory inbox. Two earlier ones have warmed the receiver up, which counts them. */
async function deliverToExpress(): Promise<readonly Profiler.ScriptCoverage[]> {
  let handled = 0;
  const receiver = createReceiver({
    secret,
    handlers: {
      'transfer.settled': () => {
        handled += 1;
      },
    },
    onOutcome: () => undefined,
  });
  await using server = await listen(express().post('/hooks', toExpressHandler(receiver)));
  const url = `${server.url}/hooks`;
  const deliver = async () => {
    const request = await signedRequest(exampleEvent('transfer.settled'), { secret, url });
    return async () => expectOk(await fetch(url, request));
  };
  const [first, second, third] = [await deliver(), await deliver(), await deliver()];
  await first();
  await second();
  const coverage = await coverageOf(third);
  if (handled !== 3) throw new Error(`The handler ran ${handled} times, not three times.`);
  return coverage;
}

/** A poll that finds one event that was never delivered. An earlier poll has found an empty list. */
async function catchUp(): Promise<readonly Profiler.ScriptCoverage[]> {
  const events: object[] = [];
  let handled = 0;
  await using server = await listen((_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(events));
  });
  const receiver = createReceiver({
    secret,
    handlers: {
      'transfer.settled': () => {
        handled += 1;
      },
    },
    onOutcome: () => undefined,
  });
  const poller = createPoller({
    client: createClient({ baseUrl: server.url, token: 'token' }),
    receiver,
    since: new Date(Date.now() - 3_600_000),
  });
  await poller.pollOnce();
  const created_at = new Date().toISOString();
  events.push({ ...exampleEvent('transfer.settled'), created_at, delivered: false });
  const coverage = await coverageOf(() => poller.pollOnce());
  if (handled !== 1) throw new Error(`The handler ran ${handled} times, not once.`);
  return coverage;
}

async function coverageOf(work: () => Promise<unknown>): Promise<readonly Profiler.ScriptCoverage[]> {
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    await work();
    return (await session.post('Profiler.takePreciseCoverage')).result;
  } finally {
    session.disconnect();
  }
}

/** The files of both packages that functions were called in. Loading a module and initialising fields do not count. */
function visitsOf(coverage: readonly Profiler.ScriptCoverage[]): readonly Visit[] {
  return coverage
    .flatMap(({ url, functions }) => {
      const file = sourceOf(url);
      const counts = functions
        .filter(
          ({ functionName, ranges }) =>
            ranges[0]?.startOffset !== 0 && !/^<.*_initializer>$/.test(functionName),
        )
        .map(({ ranges }) => ranges[0]?.count ?? 0)
        .filter((count) => count > 0);
      if (file === undefined || counts.length === 0) return [];
      return [{ file, functions: counts.length, calls: counts.reduce((sum, count) => sum + count) }];
    })
    .sort((one, other) => (one.file < other.file ? -1 : 1));
}

/** The source file of a built file of ours, `undefined` for all others. */
function sourceOf(url: string): string | undefined {
  const path = url.startsWith('file:') ? relative(root, fileURLToPath(url)) : '';
  return /^(kit\/)?dist\//.test(path) ? path.replace('dist/', 'src/').replace(/\.js$/, '.ts') : undefined;
}

async function listen(listener: RequestListener): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function expectOk(response: Response): Promise<void> {
  const text = await response.text();
  if (response.status !== 200) throw new Error(`The delivery got ${response.status}: ${text}`);
}
