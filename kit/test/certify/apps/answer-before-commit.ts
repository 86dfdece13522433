/** The service hears that all is well before the database does. */
import { openDatabase, serve } from './serve.js';

const db = openDatabase();

serve((event, answer) => {
  db.exec('BEGIN IMMEDIATE');
  const { changes } = db.prepare('INSERT OR IGNORE INTO seen (event_id) VALUES (?)').run(event.id);
  if (changes === 1)
    db.prepare('INSERT INTO ledger (event_id, amount) VALUES (?, ?)').run(event.id, event.payload['amount']);
  answer(200);
  db.exec('COMMIT'); // wrong
});
