/** A local bank. It pays each key once, and GET returns what it has paid. */
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

const { BANK_PORT = '3001' } = process.env;
const payouts = new Map<string, { id: string; redeem: string; amount: string }>();

const server = createServer(async (request, response) => {
  const key = request.headers['idempotency-key'];
  if (typeof key !== 'string') {
    response.end(JSON.stringify([...payouts.values()]));
    return;
  }
  const order = JSON.parse(await text(request));
  const payout = payouts.get(key) ?? { ...order, id: `payout_${payouts.size + 1}` };
  payouts.set(key, payout);
  response.end(JSON.stringify(payout));
});
server.listen(Number(BANK_PORT), () => console.log(`The bank is listening on http://localhost:${BANK_PORT}`));
