import pg from 'pg';
import { inboxContract, inboxTransactionContract } from 'stablehooks-kit/conformance';
import { afterAll, beforeAll } from 'vitest';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';
import { describePostgres } from './postgres-contracts.js';

let server: Service;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

function connect() {
  const open = () => new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
  const [first, second] = [open(), open()];
  return { first, second, end: () => Promise.all([first.end(), second.end()]) };
}
describePostgres('pg', connect, { plain: inboxContract, transactional: inboxTransactionContract });
