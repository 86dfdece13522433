/** The work is done before the event counts as done. */
import { openDatabase, serve } from './serve.js';

const db = openDatabase();

serve((event, answer) => {
  const seen = db.prepare('SELECT event_id FROM seen WHERE event_id = ?').get(event.id);
  if (seen === undefined) {
    db.prepare('INSERT INTO ledger (event_id, amount) VALUES (?, ?)').run(event.id, event.payload['amount']); // wrong
    db.prepare('INSERT INTO seen (event_id) VALUES (?)').run(event.id);
  }
  answer(200);
});
