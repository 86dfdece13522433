/** Push and catch-up together: the receiver is killed several times, a fifth of the pushes are lost, and no event is missed. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import Database from 'libsql';
import type { Origin, OutcomeKind } from 'stablehooks';
import type { PollReport } from 'stablehooks/catch-up';
import { createSandbox } from 'stablehooks-kit/sandbox';

const EVENTS = 300;
const KILLS = 4;
const TIMEOUT_MS = 60_000;
const secret = 'whsec_never_miss';

/** Messages from the receiver process. */
interface Message {
  readonly address?: AddressInfo;
  readonly report?: PollReport;
  readonly kind?: OutcomeKind;
  readonly origin?: Origin;
}

interface LedgerRow {
  readonly id: string;
  readonly origin: Origin;
  readonly runs: number;
}

/** Runs the demo, prints it, and returns whether the ledger equals the service's list. */
export async function neverMiss(): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'never-miss-'));
  // Two attempts close together, so a push during a restart is lost.
  const sandbox = createSandbox({
    secret,
    faults: { drop: 0.2, duplicate: 0.1 },
    maxAttempts: 2,
    retryBaseMs: 50,
  });
  const service = await sandbox.listen(0);
  const since = new Date().toISOString();
  let duplicates = 0;
  let last: PollReport | undefined;
  let port = 0;

  async function start(): Promise<ChildProcess> {
    const env = { ...process.env, FOLDER: folder, PORT: String(port), SINCE: since };
    const child = fork(fileURLToPath(new URL('./never-miss-receiver.ts', import.meta.url)), {
      env: {
        ...env,
        STABLEHOOKS_BASE_URL: service.url,
        STABLEHOOKS_TOKEN: sandbox.token,
        STABLEHOOKS_SECRET: secret,
      },
    });
    const [first] = (await once(child, 'message')) as [Message];
    port = first.address?.port ?? port;
    child.on('message', ({ report, kind, origin }: Message) => {
      last = report ?? last;
      if (kind === 'duplicate' && origin === 'push') duplicates += 1;
    });
    return child;
  }

  let child = await start();
  sandbox.endpoints.add({ url: `http://127.0.0.1:${port}/hooks` });
  const show = (text: string) => process.stdout.isTTY && process.stdout.write(`\r${text}\u001b[K`);
  const fire = [sandbox.accept, sandbox.transfer, sandbox.redeem] as const;

  for (let fired = 1; fired <= EVENTS; fired++) {
    fire[fired % fire.length]?.();
    await pause(5);
    if (fired % Math.floor(EVENTS / KILLS) === 0) {
      child.kill('SIGKILL');
      await once(child, 'exit');
      // The service fires more events while the receiver is down.
      for (let missed = 0; missed < 10 && fired < EVENTS; missed++, fired++) fire[fired % fire.length]?.();
      child = await start();
    }
    show(`fired ${fired} of ${EVENTS}`);
  }
  await sandbox.settled();

  const all = new Set(sandbox.events({ limit: EVENTS * 2 }).map(({ id }) => id));
  const ledger = new Database(join(folder, 'ledger.db'), { readonly: true });
  const read = () => ledger.prepare('SELECT id, origin, runs FROM ledger').all() as LedgerRow[];
  const newest = Date.now();
  const isOver = () =>
    read().length >= all.size && last?.proven && Date.parse(last.watermark ?? '') >= newest;
  for (const until = Date.now() + TIMEOUT_MS; !isOver() && Date.now() < until; await pause(100)) {
    show(`booked ${read().length} of ${all.size}, proven up to ${last?.watermark ?? 'nothing yet'}`);
  }
  show('');

  child.disconnect();
  await once(child, 'exit');
  const entries = read();
  ledger.close();
  await sandbox.close();
  rmSync(folder, { recursive: true });

  const by = (...origins: readonly Origin[]) =>
    entries.filter(({ origin }) => origins.includes(origin)).length;
  const lost = [...all].filter((id) => !entries.some((entry) => entry.id === id)).length;
  const again = entries.filter(({ runs }) => runs > 1).length;
  const proven = last?.proven === true && Date.parse(last.watermark ?? '') >= newest;
  console.log(
    `fired by the service        ${String(all.size).padStart(5)}   while the receiver was killed ${KILLS} times`,
  );
  console.log(
    `took effect by push         ${String(by('push')).padStart(5)}   a fifth of the attempts were dropped`,
  );
  console.log(
    `recovered by catch-up       ${String(by('pull', 'redrive')).padStart(5)}   push alone lost or delayed these`,
  );
  console.log(`duplicate pushes, not rerun ${String(duplicates).padStart(5)}`);
  console.log(
    `in flight at a kill, rerun  ${String(again).padStart(5)}   booked once, because the ledger is keyed by event.id`,
  );
  console.log(`lost                        ${String(lost).padStart(5)}`);
  const right = lost === 0 && entries.length === all.size && proven;
  console.log(
    right
      ? `\nThe ledger equals the service's list, and coverage is proven up to ${last?.watermark}.`
      : '\nWRONG: the ledger differs from the list, or nothing was proven.',
  );
  return right;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  process.exitCode = (await neverMiss()) ? 0 : 1;
