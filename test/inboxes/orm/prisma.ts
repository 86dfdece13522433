/** Prisma, with the client that `prisma generate` wrote into `prisma/` from `schema.prisma`. */
import { PrismaPg } from '@prisma/adapter-pg';
import { fromPrisma } from 'stablehooks/inboxes/postgres';
import { layer, type PoolOptions } from './data-layer.js';
import { PrismaClient } from './prisma/client.js';

export function openPrisma({ url, connections, connectTimeoutMs = 10_000 }: PoolOptions) {
  const adapter = new PrismaPg({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: connectTimeoutMs,
  });
  const prisma = new PrismaClient({ adapter });
  return layer({
    pool: fromPrisma(prisma),
    effect: (tx, id) => tx.ledger.create({ data: { id } }),
    nested: (tx, work) => tx.$transaction((inner) => work(inner)),
    raw: (tx, text) => tx.$executeRawUnsafe(text),
    close: () => prisma.$disconnect(),
  });
}
