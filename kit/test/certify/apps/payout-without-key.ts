/** A repeated call pays again, because nothing tells the bank that it is the same payout. */
import { openDatabase, serve } from './serve.js';

const db = openDatabase();

serve(async (event, answer) => {
  const seen = db.prepare('SELECT event_id FROM seen WHERE event_id = ?').get(event.id);
  if (seen === undefined) {
    const body = JSON.stringify({ amount: event.payload['amount'] });
    const paid = await fetch(process.env['BANK_URL'] ?? '', { method: 'POST', body }); // wrong
    if (!paid.ok) throw new Error(`The bank responded with ${paid.status}.`);
    db.prepare('INSERT INTO seen (event_id) VALUES (?)').run(event.id);
  }
  answer(200);
});
