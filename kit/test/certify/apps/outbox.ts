/** A right app whose work runs outside of the delivery, where certify cannot end it. */
import { openDatabase, serve } from './serve.js';

const db = openDatabase();
db.exec('CREATE TABLE IF NOT EXISTS outbox (event_id TEXT PRIMARY KEY, amount TEXT, is_booked INTEGER)');

const book = db.transaction((id: string, amount: string) => {
  db.prepare('INSERT INTO ledger (event_id, amount) VALUES (?, ?)').run(id, amount); // not shown
  db.prepare('UPDATE outbox SET is_booked = 1 WHERE event_id = ?').run(id);
});

setInterval(() => {
  const due = db.prepare('SELECT event_id, amount FROM outbox WHERE is_booked = 0').all();
  for (const { event_id, amount } of due as { event_id: string; amount: string }[]) book(event_id, amount);
}, 50);

serve((event, answer) => {
  db.prepare('INSERT OR IGNORE INTO outbox VALUES (?, ?, 0)').run(event.id, event.payload['amount']);
  answer(200);
});
