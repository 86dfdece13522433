/** Two transactions, of which one can commit alone. */
import { openDatabase, serve } from './serve.js';

const inbox = openDatabase(`${process.env['DB']}-inbox`);
const books = openDatabase();

serve((event, answer) => {
  inbox.exec('BEGIN IMMEDIATE');
  books.exec('BEGIN IMMEDIATE');
  const { changes } = inbox.prepare('INSERT OR IGNORE INTO seen (event_id) VALUES (?)').run(event.id);
  if (changes === 1)
    books
      .prepare('INSERT INTO ledger (event_id, amount) VALUES (?, ?)')
      .run(event.id, event.payload['amount']);
  inbox.exec('COMMIT');
  books.exec('COMMIT'); // wrong
  answer(200);
});
