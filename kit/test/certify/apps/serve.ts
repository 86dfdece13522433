/** The part that the apps share: verify, parse, answer. Each app has its own `handle`. */
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import Database from 'libsql';
import { parseEvent, type UnknownEvent, verifySignature } from 'stablehooks';

const { STABLEHOOKS_SECRET = '', PORT, DB = '' } = process.env;

/** The database of the app, with one table for its effects and one for the events that it has seen. */
export function openDatabase(path = DB): Database.Database {
  const db = new Database(path);
  db.exec('PRAGMA busy_timeout = 5000');
  db.exec('CREATE TABLE IF NOT EXISTS ledger (event_id TEXT, amount TEXT)');
  db.exec('CREATE TABLE IF NOT EXISTS seen (event_id TEXT PRIMARY KEY)');
  return db;
}

export function serve(handle: (event: UnknownEvent, answer: (status: number) => void) => unknown): void {
  const server = createServer(async (request, response) => {
    const answer = (status: number) => {
      if (!response.headersSent) response.writeHead(status).end();
    };
    try {
      const body = await buffer(request);
      await verifySignature(body, request.headers['x-service-signature'], { secret: STABLEHOOKS_SECRET });
      await handle(parseEvent(body).event, answer);
    } catch (error) {
      console.error(error);
      answer(500);
    }
  });
  server.listen(Number(PORT));
}
