/** Starts the bundled worker in workerd, by miniflare. */
import { readFile } from 'node:fs/promises';
import { Miniflare } from 'miniflare';

const worker = new Miniflare({
  modules: true,
  script: await readFile(process.argv[2] ?? '', 'utf8'),
  compatibilityDate: '2025-05-01',
  host: '127.0.0.1',
  port: 0,
});
console.log((await worker.ready).origin);
process.once('SIGTERM', async () => {
  await worker.dispose();
  process.exit(0);
});
