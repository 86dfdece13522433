/** What was handled is forgotten with the process. */
import { openDatabase, serve } from './serve.js';

const db = openDatabase();
const seen = new Set<string>();

serve((event, answer) => {
  if (!seen.has(event.id)) {
    seen.add(event.id);
    db.prepare('INSERT INTO ledger (event_id, amount) VALUES (?, ?)').run(event.id, event.payload['amount']); // wrong
  }
  answer(200);
});
