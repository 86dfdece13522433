/** A failure of the work is logged, and the event counts as done. */
import { openDatabase, serve } from './serve.js';

const db = openDatabase();
const remember = db.prepare('INSERT OR IGNORE INTO seen (event_id) VALUES (?)');
const book = db.prepare('INSERT INTO ledger (event_id, amount) VALUES (?, ?)');

serve((event, answer) => {
  db.exec('BEGIN IMMEDIATE');
  const { changes } = remember.run(event.id);
  try {
    if (changes === 1) book.run(event.id, event.payload['amount']); // wrong
  } catch (error) {
    console.error(error);
  }
  db.exec('COMMIT');
  answer(200);
});
