/** Handles a signed delivery and rejects a forged one. The other subpaths must compile, and load without their peers. */
// Not stablehooks/client and stablehooks/zod: their declarations import zod's, which need TypeScript 5.4 and esModuleInterop.
import { createReceiver, PermanentError, sign } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { toExpressHandler } from 'stablehooks/express';
import { toFetchHandler } from 'stablehooks/fetch';
import { durableObjectInbox } from 'stablehooks/inboxes/durable-object';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { redisInbox } from 'stablehooks/inboxes/redis';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toLambdaHandler } from 'stablehooks/lambda';
import { toNextApiRoute, toNextRoute } from 'stablehooks/next';
import { toNodeHandler } from 'stablehooks/node';
import { bullmqQueue } from 'stablehooks/queues/bullmq';
import { pgBossQueue } from 'stablehooks/queues/pg-boss';
import { reconcile } from 'stablehooks/reconcile';
import { toSqsHandler } from 'stablehooks/sqs';

const adapters = [
  toExpressHandler,
  toLambdaHandler,
  toNextApiRoute,
  toNextRoute,
  toNodeHandler,
  toSqsHandler,
];
const inboxes = [durableObjectInbox, postgresInbox, redisInbox, sqliteInbox];
const others = [createPoller, bullmqQueue, pgBossQueue, reconcile];
const missing = [...adapters, ...inboxes, ...others].filter((value) => typeof value !== 'function');
if (missing.length > 0) throw new Error('A subpath does not export its function.');

const secret = 'whsec_modules';
const receiver = createReceiver({
  secret,
  handlers: {
    'transfer.settled': (event) => {
      const type: 'transfer.settled' = event.type;
      // @ts-expect-error A payload without a schema is of unknown content.
      const account: string = event.payload['account'];
      if (account === 'closed') throw new PermanentError(`The account of this ${type} is closed.`);
    },
  },
  logger: { warn: () => undefined, error: () => undefined },
});

const deliver = async (account: string, key: string) => {
  const created_at = '2026-01-02T03:04:05Z';
  const event = { id: `evt_${account}`, type: 'transfer.settled', created_at, payload: { account } };
  const body = new TextEncoder().encode(JSON.stringify(event));
  const headers = { 'X-SERVICE-Signature': await sign(body, { secret: key }) };
  const request = new Request('http://localhost/', { method: 'POST', headers, body });
  const response = await toFetchHandler(receiver)(request);
  return `${response.status} ${(await response.json()).outcome}`;
};

const main = async () => {
  const answers = [await deliver('open', secret), await deliver('open', 'guessed')];
  console.log([...answers, await deliver('closed', secret)].join(', '));
};
main();
