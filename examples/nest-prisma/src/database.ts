import { Global, Injectable, Module, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { fromPrisma, postgresInbox } from 'stablehooks/inboxes/postgres';
import { PrismaClient } from '../generated/client.js';

@Injectable()
export class Database extends PrismaClient implements OnApplicationShutdown {
  /** The only inbox of this app. The receiver, the poller and the health check use it. */
  readonly inbox = postgresInbox(fromPrisma(this), { transactional: true });

  constructor() {
    const connectionString = process.env.DATABASE_URL;
    const timeouts = { connectionTimeoutMillis: 5_000, query_timeout: 15_000 };
    super({ adapter: new PrismaPg({ connectionString, ...timeouts }) });
  }

  /** Runs after the receiver has closed, because its last handlers need the database. */
  onApplicationShutdown() {
    return this.$disconnect();
  }
}

@Global()
@Module({ providers: [Database], exports: [Database] })
export class DatabaseModule {}
