/** The nightly job: it books what the list has, agrees, and says so by its exit code; a lost entry is found. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'libsql';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { paste } from '../first-run/terminal.js';
import type { Tarballs } from '../tarball.js';
import { adaptEnv } from './programs.js';
import { LIMIT_MS, succeed, toEnv, write } from './write.js';

export async function proveNight(tarballs: Tarballs): Promise<readonly string[]> {
  const folder = await write('--example reconcile-nightly', tarballs);
  const sandbox = createSandbox();
  try {
    const { url } = await sandbox.listen(0);
    await writeFile(join(folder, '.env'), toEnv(await adaptEnv(folder, { STABLEHOOKS_BASE_URL: url })));
    const fired = Array.from({ length: 5 }, () => sandbox.emit('transfer.settled').id);
    await succeed('npm run dev', folder);
    await succeed('npm run dev', folder);
    await succeed('npm run status', folder);

    const db = new Database(join(folder, 'app.db'));
    db.exec('PRAGMA busy_timeout = 5000');
    const booked = db.prepare('SELECT event_id FROM ledger').all() as { readonly event_id: string }[];
    assert.deepEqual(booked.map(({ event_id }) => event_id).sort(), [...fired].sort());
    db.prepare('DELETE FROM ledger WHERE event_id = ?').run(fired[0]);
    db.close();
    const { code, output } = await paste('npm run dev', folder).ended(AbortSignal.timeout(LIMIT_MS));
    assert.equal(code, 1, output);
    assert.match(output, new RegExp(`missing: ${fired[0]}`));
    return [];
  } finally {
    await sandbox.close();
    await rm(join(folder, '..'), { recursive: true, maxRetries: 5 });
  }
}
