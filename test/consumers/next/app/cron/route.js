/** A cron route whose values all come from the environment, which the build does not have. */
import { createReceiver, memoryInbox } from 'stablehooks';
import { createPoller, toCronRoute } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';

function need(name) {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set.`);
  return value;
}

function createAppPoller() {
  const receiver = createReceiver({
    secret: need('STABLEHOOKS_SECRET'),
    inbox: { ...memoryInbox(), durable: need('DATABASE_URL') !== '' },
    handlers: {},
  });
  const client = createClient({
    baseUrl: need('STABLEHOOKS_BASE_URL'),
    token: need('STABLEHOOKS_TOKEN'),
    retries: 0,
  });
  return createPoller({ client, receiver });
}

export const { GET } = toCronRoute(createAppPoller, { secret: () => need('CRON_SECRET') });
