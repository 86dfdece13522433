/** The first part of the demo: sends each kind of delivery over HTTP and checks the response. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { createReceiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { createSandbox } from 'stablehooks-kit/sandbox';

const secret = 'whsec_demo';

interface Row {
  readonly sent: string;
  readonly expected: string;
  readonly got: string;
}

/** Sends every kind of delivery, prints a table, and returns whether every response is as expected. */
export async function showDeliveries(): Promise<boolean> {
  const handled: string[] = [];
  const book = (event: { readonly type: string }) => void handled.push(event.type);
  const receiver = createReceiver({
    secret,
    handlers: {
      'accept.confirmed': book,
      'transfer.settled': book,
      'transfer.failed': book,
      'redeem.completed': book,
      'redeem.failed': book,
    },
    logger: { warn: () => undefined, error: () => undefined },
  });
  const app = express();
  app.post('/hooks', toExpressHandler(receiver));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;

  const sandbox = createSandbox({ secret, endpoints: [{ url }], maxAttempts: 1 });
  const rows: Row[] = [];
  /** Fires an event in the sandbox and records the response to its last attempt. */
  const push = async (sent: string, expected: string, fire: () => void) => {
    fire();
    await sandbox.settled();
    const response = sandbox.attempts().at(-1)?.response;
    rows.push({ sent, expected, got: summarize(response?.status, response?.body) });
  };

  const good = '200 handled';
  const mismatch = '401 ERR_SIGNATURE_MISMATCH';
  await push('accept.confirmed', good, () => sandbox.accept());
  await push('transfer.settled', good, () => sandbox.transfer());
  await push('transfer.failed', good, () => sandbox.transfer({ failsWith: 'routing' }));
  await push('redeem.completed', good, () => sandbox.redeem());
  await push('redeem.failed', good, () => sandbox.redeem({ failsWith: 'bank' }));
  const [first] = sandbox.events();
  await push('the last event again', '200 duplicate', () => sandbox.redeliver(first?.id ?? ''));
  await push('a forged signature', mismatch, () => {
    sandbox.faults.set({ corruptSignature: { next: 1 } });
    sandbox.accept();
  });
  await push('a body re-serialised by a proxy', mismatch, () => {
    sandbox.faults.set({ reserialise: { next: 1 } });
    sandbox.accept();
  });
  await push('an unknown type', '200 parked', () => sandbox.emit('mint.completed', {}));

  // The service never sends these two; an attacker can.
  const genuine = await signedRequest(exampleEvent('transfer.settled'), { secret, url });
  const tampered = new TextDecoder().decode(genuine.body).replace('"amount":"', '"amount":"9');
  const response = await fetch(url, { method: 'POST', headers: genuine.headers, body: tampered });
  rows.push({
    sent: 'a tampered amount',
    expected: mismatch,
    got: summarize(response.status, await response.text()),
  });
  const unsigned = await fetch(url, { method: 'POST', body: genuine.body });
  rows.push({
    sent: 'no signature',
    expected: '401 ERR_SIGNATURE_MISSING',
    got: summarize(unsigned.status, await unsigned.text()),
  });

  await sandbox.close();
  await receiver.close();
  server.closeAllConnections();
  server.close();

  print(rows);
  const right = rows.every(({ expected, got }) => expected === got) && handled.length === 5;
  console.log(
    `\nHandlers ran ${handled.length} times for 5 genuine events. ${right ? 'All responses are as expected.' : 'WRONG.'}`,
  );
  return right;
}

/** The status, and the outcome or the error code. */
function summarize(status: number | undefined, body = '{}'): string {
  const { outcome, code } = JSON.parse(body) as { outcome?: string; code?: string };
  return `${status ?? 'no response'} ${code ?? outcome ?? ''}`.trim();
}

function print(rows: readonly Row[]): void {
  const width = (pick: (row: Row) => string) => Math.max(...rows.map((row) => pick(row).length));
  const sent = width((row) => row.sent);
  const got = width((row) => row.got);
  console.log(`   ${'delivery'.padEnd(sent)}  response`);
  for (const row of rows) {
    const right = row.got === row.expected;
    console.log(
      ` ${right ? '✓' : '✗'} ${row.sent.padEnd(sent)}  ${row.got.padEnd(got)}${right ? '' : `  expected ${row.expected}`}`,
    );
  }
}
