/** The event counts as done before its work is. */
import { openDatabase, serve } from './serve.js';

const db = openDatabase();

serve((event, answer) => {
  const { changes } = db.prepare('INSERT OR IGNORE INTO seen (event_id) VALUES (?)').run(event.id);
  if (changes === 1) {
    db.prepare('INSERT INTO ledger (event_id, amount) VALUES (?, ?)').run(event.id, event.payload['amount']); // wrong
  }
  answer(200);
});
