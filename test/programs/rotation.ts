/** A rotation as the README of the program tells it: both secrets are accepted, then the old one is no longer used, then refused. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { paste, type Running } from '../first-run/terminal.js';
import { freePort } from '../services/free-port.js';
import type { Tarballs } from '../tarball.js';
import { adaptEnv } from './programs.js';
import { LIMIT_MS, toEnv, write } from './write.js';

const NEW = 'whsec_rotated';

export async function proveRotation(tarballs: Tarballs): Promise<readonly string[]> {
  const folder = await write('--example rotation', tarballs);
  const sandbox = createSandbox({ maxAttempts: 1 });
  let running: Running | undefined;
  try {
    const { url } = await sandbox.listen(0);
    const PORT = String(await freePort());
    const origin = `http://localhost:${PORT}`;
    const restart = async (secrets: Readonly<Record<string, string>>) => {
      await running?.stop();
      const env = await adaptEnv(folder, { PORT, STABLEHOOKS_BASE_URL: url, ...secrets });
      await writeFile(join(folder, '.env'), toEnv(env));
      running = paste('exec npm run dev', folder);
      await running.printed(/Listening on /, AbortSignal.timeout(LIMIT_MS));
    };
    const deliver = async () => {
      sandbox.emit('transfer.settled');
      await sandbox.settled();
      return sandbox.attempts().at(-1)?.response?.status;
    };
    const used = async () => {
      const rows = (await (await fetch(`${origin}/secrets`)).json()) as { secret: string; at: string }[];
      return new Map(rows.map(({ secret, at }) => [secret, at]));
    };

    await restart({ STABLEHOOKS_SECRET: NEW, STABLEHOOKS_SECRET_OLD: sandbox.secret });
    const { id } = sandbox.endpoints.add({ url: `${origin}/hooks` });
    assert.equal(await deliver(), 200, 'the old secret is still accepted');
    const before = await used();
    assert.deepEqual([...before.keys()], ['old']);

    sandbox.endpoints.rotateSecret(id, NEW);
    assert.equal(await deliver(), 200, 'the new secret is accepted');
    const after = await used();
    assert.deepEqual([...after.keys()].sort(), ['new', 'old']);
    assert.equal(after.get('old'), before.get('old'), 'the old secret is no longer used');

    await restart({ STABLEHOOKS_SECRET: NEW, STABLEHOOKS_SECRET_OLD: '' });
    assert.equal(await deliver(), 200, 'the unset old secret breaks nothing');
    sandbox.endpoints.rotateSecret(id, 'sandbox-secret');
    assert.equal(await deliver(), 401, 'the removed secret is refused');
    return [];
  } finally {
    await running?.stop();
    await sandbox.close();
    await rm(join(folder, '..'), { recursive: true, maxRetries: 5 });
  }
}
