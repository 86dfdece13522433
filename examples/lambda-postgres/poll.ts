/** Every minute: finds events that push missed, and runs failed ones. Throws if a poll is unreliable, to raise an alarm. */
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { receiver } from './receiver.js';

const { STABLEHOOKS_BASE_URL = '', STABLEHOOKS_TOKEN = '' } = process.env;

const client = createClient({ baseUrl: STABLEHOOKS_BASE_URL, token: STABLEHOOKS_TOKEN });
const poller = createPoller({ client, receiver });

export async function handler() {
  await receiver.redrive(); // failed events do not wait for a list that does not respond
  const report = await poller.pollOnce({ signal: AbortSignal.timeout(50_000) });
  const { diagnosis, proven, unconfirmed, failed, problems } = report;
  if (failed > 0 || problems.length > 0 || !(proven || unconfirmed)) throw new Error(diagnosis);
  return diagnosis;
}
