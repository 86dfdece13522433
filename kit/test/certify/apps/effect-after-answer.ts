/** The work begins once the service has its answer. */
import { openDatabase, serve } from './serve.js';

const db = openDatabase();

serve((event, answer) => {
  const { changes } = db.prepare('INSERT OR IGNORE INTO seen (event_id) VALUES (?)').run(event.id);
  answer(200);
  if (changes === 0) return;
  setImmediate(() => {
    db.prepare('INSERT INTO ledger (event_id, amount) VALUES (?, ?)').run(event.id, event.payload['amount']); // wrong
  });
});
