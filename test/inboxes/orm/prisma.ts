/** Prisma: its real runtime, with what `prisma generate` would write for the one model of the tests. */
import nodeModule from 'node:module';
import { PrismaPg } from '@prisma/adapter-pg';
import {
  type DynamicClientExtensionThis,
  getPrismaClient,
  type PrismaClientOptions,
} from '@prisma/client/runtime/client';
import { fromPrisma } from 'stablehooks/inboxes/postgres';
import { layer, type PoolOptions } from './data-layer.js';

// The runtime has no types for its compiler.
const load = nodeModule.createRequire(import.meta.url);

const SCHEMA = `
datasource db {
  provider = "postgresql"
}
model Ledger {
  entry Int    @id @default(autoincrement())
  id    String
  @@map("ledger")
}`;

/** The types of the operations that the tests use, as the runtime's own client type expects them. */
interface LedgerTypes {
  readonly meta: { readonly modelProps: 'ledger'; readonly txIsolationLevel: 'ReadCommitted' };
  readonly model: {
    readonly Ledger: {
      readonly operations: {
        readonly create: {
          readonly args: { readonly data: { readonly id: string } };
          readonly result: unknown;
        };
      };
      readonly payload: unknown;
      readonly fields: unknown;
    };
  };
  readonly other: {
    readonly operations: { readonly $executeRawUnsafe: unknown; readonly $queryRawUnsafe: unknown };
  };
}

const FIELD = {
  kind: 'scalar',
  isRequired: true,
  isList: false,
  isUnique: false,
  isReadOnly: false,
} as const;

type LedgerClient = DynamicClientExtensionThis<LedgerTypes, never, Record<never, never>>;

const LedgerClient = getPrismaClient({
  previewFeatures: [],
  clientVersion: '7',
  engineVersion: '',
  activeProvider: 'postgresql',
  inlineSchema: SCHEMA,
  runtimeDataModel: {
    models: {
      Ledger: {
        dbName: 'ledger',
        schema: null,
        primaryKey: null,
        uniqueFields: [],
        uniqueIndexes: [],
        fields: [
          { ...FIELD, name: 'entry', type: 'Int', isId: true, hasDefaultValue: true },
          { ...FIELD, name: 'id', type: 'String', isId: false, hasDefaultValue: false },
        ],
      },
    },
    enums: {},
    types: {},
  },
  // An empty graph: it only lets plans of queries be shared between values.
  parameterizationSchema: { strings: [], graph: 'AAAA' },
  compilerWasm: {
    getRuntime: async () => load('@prisma/client/runtime/query_compiler_fast_bg.postgresql.js'),
    async getQueryCompilerWasmModule() {
      const { wasm } = load('@prisma/client/runtime/query_compiler_fast_bg.postgresql.wasm-base64.js');
      return new WebAssembly.Module(Buffer.from(wasm, 'base64'));
    },
    importName: './query_compiler_fast_bg.js',
  },
}) as unknown as new (
  options: PrismaClientOptions,
) => LedgerClient;

export function openPrisma({ url, connections, connectTimeoutMs = 10_000 }: PoolOptions) {
  const adapter = new PrismaPg({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: connectTimeoutMs,
  });
  const prisma = new LedgerClient({ adapter });
  return layer({
    pool: fromPrisma(prisma),
    effect: (tx, id) => tx.ledger.create({ data: { id } }),
    nested: (tx, work) => tx.$transaction((inner) => work(inner)),
    raw: (tx, text) => tx.$executeRawUnsafe(text),
    close: () => prisma.$disconnect(),
  });
}
