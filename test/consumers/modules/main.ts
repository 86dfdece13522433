/** Handles a signed delivery and rejects a forged one. The other subpaths must compile, and load without their drivers. */
import './subpaths.js';
import { createReceiver, isKnownEvent, PermanentError, parseEvent, sign } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';

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

export const misspelt = () =>
  // @ts-expect-error A misspelt event type does not compile.
  createReceiver({ secret, handlers: { 'transfer.setled': () => null } });

export function narrow(body: Uint8Array): void {
  const { event } = parseEvent(body);
  if (isKnownEvent(event) && event.type === 'redeem.failed') event.type satisfies 'redeem.failed';
}

const deliver = async (account: string, key: string) => {
  const created_at = '2026-01-02T03:04:05Z';
  const event = { id: `evt_${account}`, type: 'transfer.settled', created_at, payload: { account } };
  const body = new TextEncoder().encode(JSON.stringify(event));
  const headers = { 'X-SERVICE-Signature': await sign(body, { secret: key }) };
  const request = new Request('http://localhost/', { method: 'POST', headers, body });
  const response = await toFetchHandler(receiver)(request);
  const { outcome }: { outcome?: string } = await response.json();
  return `${response.status} ${outcome}`;
};

const main = async () => {
  const answers = [await deliver('open', secret), await deliver('open', 'guessed')];
  console.log([...answers, await deliver('closed', secret)].join(', '));
};
main();
