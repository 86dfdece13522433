/** The demo's first act: what each kind of delivery gets, over real HTTP, and whether it is what it should get. */
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
  readonly wanted: string;
  readonly got: string;
}

/** Sends everything, prints the table, and answers whether each got what it should. */
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
    onOutcome: () => undefined,
  });
  const app = express();
  app.post('/hooks', toExpressHandler(receiver));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;

  const sandbox = createSandbox({ secret, endpoints: [{ url }], maxAttempts: 1 });
  const rows: Row[] = [];
  /** Lets the service deliver something, and notes what its last attempt got. */
  const push = async (sent: string, { wanted, fire }: { wanted: string; fire: () => void }) => {
    fire();
    await sandbox.settled();
    const response = sandbox.attempts().at(-1)?.response;
    rows.push({ sent, wanted, got: describe(response?.status, response?.body) });
  };

  const good = '200 handled';
  await push('accept.confirmed', { wanted: good, fire: () => sandbox.accept() });
  await push('transfer.settled', { wanted: good, fire: () => sandbox.transfer() });
  await push('transfer.failed', { wanted: good, fire: () => sandbox.transfer({ failsWith: 'routing' }) });
  await push('redeem.completed', { wanted: good, fire: () => sandbox.redeem() });
  await push('redeem.failed', { wanted: good, fire: () => sandbox.redeem({ failsWith: 'bank' }) });
  const [first] = sandbox.events();
  await push('the last one again', {
    wanted: '200 duplicate',
    fire: () => sandbox.redeliver(first?.id ?? ''),
  });
  await push('a forged signature', {
    wanted: '401 ERR_SIGNATURE_MISMATCH',
    fire: () => {
      sandbox.faults.set({ corruptSignature: { next: 1 } });
      sandbox.accept();
    },
  });
  await push('a body written anew by a proxy', {
    wanted: '401 ERR_SIGNATURE_MISMATCH',
    fire: () => {
      sandbox.faults.set({ reserialise: { next: 1 } });
      sandbox.accept();
    },
  });
  await push('an unknown type', { wanted: '200 parked', fire: () => sandbox.emit('mint.completed', {}) });

  // The service never does these two; somebody else might.
  const genuine = await signedRequest(exampleEvent('transfer.settled'), { secret, url });
  const tampered = new TextDecoder().decode(genuine.body).replace('"amount":"', '"amount":"9');
  const answer = await fetch(url, { method: 'POST', headers: genuine.headers, body: tampered });
  rows.push({
    sent: 'a tampered amount',
    wanted: '401 ERR_SIGNATURE_MISMATCH',
    got: describe(answer.status, await answer.text()),
  });
  const unsigned = await fetch(url, { method: 'POST', body: genuine.body });
  rows.push({
    sent: 'no signature at all',
    wanted: '401 ERR_SIGNATURE_MISSING',
    got: describe(unsigned.status, await unsigned.text()),
  });

  await sandbox.close();
  await receiver.close();
  server.closeAllConnections();
  server.close();

  print(rows);
  const right = rows.every(({ wanted, got }) => wanted === got) && handled.length === 5;
  console.log(
    `\nHandlers ran ${handled.length} times for 5 genuine events. ${right ? 'All as it should be.' : 'WRONG.'}`,
  );
  return right;
}

/** The status, and the outcome or the code of the problem. */
function describe(status: number | undefined, body = '{}'): string {
  const { outcome, code } = JSON.parse(body) as { outcome?: string; code?: string };
  return `${status ?? 'no answer'} ${code ?? outcome ?? ''}`.trim();
}

function print(rows: readonly Row[]): void {
  const width = (pick: (row: Row) => string) => Math.max(...rows.map((row) => pick(row).length));
  const sent = width((row) => row.sent);
  const got = width((row) => row.got);
  console.log(`   ${'what was sent'.padEnd(sent)}  what it got`);
  for (const row of rows) {
    const right = row.got === row.wanted;
    console.log(
      ` ${right ? '✓' : '✗'} ${row.sent.padEnd(sent)}  ${row.got.padEnd(got)}${right ? '' : `  wanted ${row.wanted}`}`,
    );
  }
}
