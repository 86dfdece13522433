/** Every data layer, loaded when it is opened: a process that is killed uses one of them. */
import { atNight } from '../../nightly.js';
import type { AnyDataLayer, PoolOptions } from './data-layer.js';

type Open = (options: PoolOptions) => Promise<AnyDataLayer>;

export const DATA_LAYERS: Readonly<Record<string, Open>> = {
  pg: async (options) => (await import('./pg.js')).openPg(options),
  'postgres.js': async (options) => (await import('./postgres-js.js')).openPostgresJs(options),
  Drizzle: async (options) => (await import('./drizzle.js')).openDrizzle(options),
  'Drizzle over postgres.js': async (options) =>
    (await import('./drizzle.js')).openDrizzleOverPostgresJs(options),
  Kysely: async (options) => (await import('./kysely.js')).openKysely(options),
  Knex: async (options) => (await import('./knex.js')).openKnex(options),
  TypeORM: async (options) => (await import('./typeorm.js')).openTypeOrm(options),
  Prisma: async (options) => (await import('./prisma.js')).openPrisma(options),
};

/** The layers whose whole contracts run each time, one for each driver. At night they are all. */
export const WHOLE_LAYERS: readonly string[] = atNight(Object.keys(DATA_LAYERS), ['pg', 'postgres.js']);
