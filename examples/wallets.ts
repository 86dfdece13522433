/** Creates a wallet in the sandbox, sends money within and over its limits, and receives its events in Express. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { createReceiver } from 'stablehooks';
import { createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { createSandbox } from 'stablehooks-kit/sandbox';

const secret = 'whsec_wallets';
const shop = '0x52908400098527886E0F7030069857D2E4169EE7';

const receiver = createReceiver({
  secret,
  handlers: {
    'accept.confirmed': ({ payload }) => console.log('received: deposit of', payload['amount']),
    'transfer.settled': ({ payload }) => console.log('received: settled', payload['amount']),
    'transfer.failed': ({ payload }) => console.log('received: failed,', payload['reason']),
  },
});
const app = express();
app.post('/hooks', toExpressHandler(receiver));
const server = app.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;

const sandbox = createSandbox({ secret, endpoints: [{ url: `http://127.0.0.1:${port}/hooks` }] });
const service = await sandbox.listen(0);
const client = createClient({ baseUrl: service.url, token: sandbox.token });

const wallet = await client.wallets.create({
  agentId: 'agent-7',
  label: 'travel',
  chain: 'base',
  limits: { perTx: '10.00', daily: '15.00' },
  allowlist: [shop],
});
console.log('created', wallet.chain, 'wallet with limits', wallet.limits.perTx, 'and', wallet.limits.daily);

/** The service's API has no call for sending, so the sandbox adds one. */
function send(amount: string, to = shop) {
  try {
    const { state } = sandbox.send(wallet.id, { amount, to });
    console.log('sent', amount, state);
  } catch (error) {
    console.log('refused', amount, error instanceof Error && 'code' in error ? error.code : error);
  }
}

sandbox.accept({ walletId: wallet.id, amount: '250.00' });
send('10.00');
send('10.01');
send('5.01');
send('1.00', '0x0000000000000000000000000000000000000001');
const raised = await client.wallets.updateLimits(wallet.id, {
  limits: { perTx: '100.00', daily: '200.00' },
  allowlist: wallet.allowlist,
});
console.log('raised the limits to', raised.limits.perTx, 'and', raised.limits.daily);
send('10.01');

await sandbox.settled();
const events = await client.events.list();
console.log(
  `listed ${events.length} events, ${events.filter(({ delivered }) => delivered).length} delivered`,
);
await sandbox.close();
server.closeAllConnections();
server.close();
