import { defineConfig } from 'prisma/config';

export default defineConfig({
  schema: 'prisma/schema.prisma',
  // Empty when `prisma generate` runs without a database.
  datasource: { url: process.env.DATABASE_URL ?? '' },
});
