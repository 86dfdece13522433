/** From an empty folder, with `init`, to an event that is handled, durable and found by a poll: Express and SQLite. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import { freePort } from '../services/free-port.js';
import type { Tarballs } from '../tarball.js';
import { paste, type Running } from './terminal.js';

export const INIT = 'init, Express and SQLite, to an event that a poll found after a restart';

/** How long it may take on a machine that does nothing else, downloads included, in seconds. */
export const INIT_LIMIT_S = 60;
const HANG_MS = 600_000;

/** The commands that the README and `init` print. The tarballs and free ports take the place of names and ports. */
export async function initRun({
  stablehooks,
  kit,
}: Tarballs): Promise<{ seconds: number; commands: number }> {
  const parent = await mkdtemp(join(tmpdir(), 'first-run-'));
  const app = join(parent, 'my-app');
  const signal = AbortSignal.timeout(HANG_MS);
  const [PORT, sandboxPort] = [String(await freePort()), String(await freePort())];
  const started: Running[] = [];
  let commands = 0;
  const type = (line: string, cwd = app) => {
    commands += 1;
    const running = paste(line, cwd);
    started.push(running);
    return running;
  };
  const succeed = async (line: string, cwd = app) => {
    const { code, output } = await type(line, cwd).ended(signal);
    assert.equal(code, 0, `${line}\n${output}`);
    return output;
  };
  const trigger = `npx stablehooks trigger transfer.settled --env-file .env`;
  const booked = () => {
    const db = new Database(join(app, 'app.db'));
    db.exec('PRAGMA busy_timeout = 5000');
    const rows = db.prepare('SELECT event_id FROM ledger').all() as { readonly event_id: string }[];
    db.close();
    return rows.map(({ event_id }) => event_id);
  };

  try {
    const begin = performance.now();
    const printed = await succeed(
      `npx --yes --package ${stablehooks} --package ${kit} stablehooks-kit init my-app --framework express --database sqlite`,
      parent,
    );
    for (const line of ['npm run sandbox', 'npm run dev']) assert.ok(printed.includes(`\n${line}`), printed);
    await succeed(`npm install ${stablehooks} ${kit} --no-audit --no-fund`);
    const env = await readFile(join(app, '.env'), 'utf8');
    await writeFile(join(app, '.env'), `${env.replace('4010', sandboxPort)}PORT=${PORT}\n`);

    const manifest = await readFile(join(app, 'package.json'), 'utf8');
    await writeFile(join(app, 'package.json'), manifest.replace('localhost:3000', `localhost:${PORT}`));
    await type(`exec npm run sandbox -- --port ${sandboxPort}`).printed(/^Press Ctrl-C to stop/m, signal);
    const server = type('exec npm run dev');
    await server.printed(/Listening on /, signal);
    const handled = await succeed(trigger);
    const [, first] = /(evt_[\w-]+)/.exec(handled) ?? [];
    assert.match(handled, /200 handled/);
    await server.stop();
    // Nothing listens: the delivery is lost for now, and the poll at the next start finds the event.
    const { output: lost } = await type(trigger).ended(signal);
    const [, second] = /(evt_[\w-]+)/.exec(lost) ?? [];
    await type('exec npm run dev').printed(/Listening on /, signal);
    assert.deepEqual(booked().sort(), [first, second].sort());
    return { seconds: (performance.now() - begin) / 1_000, commands };
  } finally {
    for (const running of started.reverse()) await running.stop();
    await rm(parent, { recursive: true, maxRetries: 5 });
  }
}
