/** Calls the bank. The bank pays each key once: a repeated call after a crash returns the first payout. */
const { BANK_URL = '' } = process.env;

export interface Payout {
  readonly id: string;
}

export async function pay(order: { redeem: string; amount: string }, key: string, signal: AbortSignal) {
  const response = await fetch(BANK_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify(order),
    signal,
  });
  if (!response.ok) throw new Error(`The bank responded with ${response.status}.`);
  return (await response.json()) as Payout;
}
