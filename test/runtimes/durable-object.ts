/** `durableObjectInbox` in workerd: the inbox contract, and an object that is killed after it has answered 202. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { until } from '../child.js';
import { startWorkerd, type WorkerdProcess } from './workerd-process.js';

const SECRET = 'whsec_durable';

/** How long the test waits for what must happen: the alarm, the lease of the object, and a slow machine. */
const TIMEOUT_MS = 120_000;

export function contractFailures(installed: string): Promise<readonly string[]> {
  return withFolder(async (folder) => {
    const bundle = join(installed, 'dist/durable-object-worker.js');
    const objects = { className: 'Objects', binding: 'OBJECTS' };
    // The contract imports node:assert; the inbox imports nothing of Node.
    const worker = { installed, folder, bundle, ...objects, compatibilityFlags: ['nodejs_compat'] };
    const workerd = await startWorkerd(worker);
    try {
      return (await (await fetch(workerd.url)).json()) as string[];
    } finally {
      await workerd.kill();
    }
  });
}

export function recordedFailures(installed: string): Promise<readonly string[]> {
  return withFolder(async (folder) => {
    const ledger = await startLedger();
    const worker = {
      ...{ installed, folder, bundle: join(installed, 'dist/recorded-durable-object.js') },
      ...{ className: 'Hooks', binding: 'HOOKS' },
      env: { STABLEHOOKS_SECRET: SECRET, LEDGER_URL: ledger.url },
    };
    let workerd: WorkerdProcess | undefined;
    const failures: string[] = [];
    const expect = (what: string, actual: unknown, expected: unknown) => {
      if (actual !== expected) failures.push(`${what}: ${actual}, not ${expected}`);
    };
    try {
      const events = Array.from({ length: 10 }, () => exampleEvent('transfer.settled'));
      const [first, ...others] = events;
      if (first === undefined) throw new Error('There are no events.');

      workerd = await startWorkerd(worker);
      let { url } = workerd;
      ledger.hold();
      expect('a delivery whose handler waits', await deliver(url, first), '202 queued');
      await ledger.has(first.id, 1);
      expect('its second delivery while the handler runs', await deliver(url, first), '202 queued');
      ledger.release();
      await until('the handler after the answer to end', async () =>
        (await deliver(url, first)).startsWith('200 duplicate'),
      );
      expect('entries of the first event', ledger.count(first.id), 1);

      ledger.hold();
      for (const event of others) {
        expect('a delivery before the kill', await deliver(url, event), '202 queued');
      }
      await Promise.all(others.map(({ id }) => ledger.has(id, 1)));
      await workerd.kill();
      ledger.release();
      workerd = await startWorkerd(worker);
      ({ url } = workerd);
      // An object that is not called is started by its alarm only.
      await Promise.all(others.map(({ id }) => ledger.has(id, 2)));
      for (const event of events) {
        await until(`${event.id} to be done`, async () =>
          (await deliver(url, event)).startsWith('200 duplicate'),
        );
      }
      expect('entries of the first event at the end', ledger.count(first.id), 1);
    } finally {
      await workerd?.kill();
      ledger.close();
    }
    return failures;
  });
}

async function deliver(url: string, event: ReturnType<typeof exampleEvent>): Promise<string> {
  const { method, headers, body } = await signedRequest(event, { secret: SECRET, url });
  const response = await fetch(url, { method, headers, body });
  const { outcome } = (await response.json()) as { readonly outcome: string };
  return `${response.status} ${outcome}`;
}

async function startLedger() {
  const calls: string[] = [];
  const waiting = new Set<() => void>();
  let held: ServerResponse[] | undefined;
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    calls.push(JSON.parse(body).id);
    for (const check of waiting) check();
    if (held === undefined) response.end();
    else held.push(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const count = (id: string) => calls.filter((each) => each === id).length;
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    count,
    hold() {
      held = [];
    },
    release() {
      for (const response of held ?? []) response.end();
      held = undefined;
    },
    /** Resolves when the event has been entered so often. */
    has(id: string, times: number): Promise<void> {
      const called = new Promise<void>((resolve) => {
        const check = () => {
          if (count(id) < times) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      });
      return Promise.race([called, late(`${id} in the ledger ${times} times`)]);
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function late(what: string): Promise<never> {
  await sleep(TIMEOUT_MS, undefined, { ref: false });
  throw new Error(`waited in vain for ${what}`);
}

async function withFolder<Result>(use: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'durable-object-'));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
