import pg from 'pg';
import { inboxContract, inboxTransactionContract } from '../contracts/index.js';
import { ownPostgres } from '../services/own-postgres.js';
import { describePostgres } from './postgres-contracts.js';

const postgres = ownPostgres();

function connect() {
  const open = () => new pg.Pool({ connectionString: postgres.server.url }).on('error', () => undefined);
  const [first, second] = [open(), open()];
  return { first, second, end: () => Promise.all([first.end(), second.end()]) };
}
describePostgres('pg', connect, { plain: inboxContract, transactional: inboxTransactionContract });
