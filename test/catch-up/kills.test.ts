/**
 * Kills the receiver at random moments: no event is lost, only events in flight at a kill run again, and what the
 * poller's state says is true after each kill.
 *
 * `npm run test:kills` kills 200 times. KILLS sets another number.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'libsql';
import { EVENT_TYPES } from 'stablehooks';
import { type Gap, listGaps, readPollState } from 'stablehooks/catch-up';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test, vi } from 'vitest';
import { bundle } from '../bundle.js';
import { readCount } from '../read-count.js';

const KILLS = readCount('KILLS', process.env['KILLS'] ?? '6');
const secret = 'whsec_kills';

interface ReceiverMessage {
  readonly address?: AddressInfo;
  readonly proven?: boolean;
  readonly watermark?: string | null;
  readonly acknowledged?: Gap;
}

test(`SIGKILL at ${KILLS} random moments loses no event and repeats only events in flight`, {
  // A kill takes a second on an idle machine.
  timeout: 300_000 + KILLS * 10_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-kills-'));
  const program = await bundle(new URL('./kill-receiver.ts', import.meta.url));
  onTestFinished(program.remove);
  const sandbox = createSandbox({
    secret,
    faults: { drop: 0.2, duplicate: 0.1, reorder: 0.1, reorderMs: 50 },
  });
  const { url } = await sandbox.listen(0);
  const since = new Date().toISOString();
  let maxLimit = 100_000;
  const settings = {
    ...process.env,
    FOLDER: folder,
    STABLEHOOKS_BASE_URL: url,
    STABLEHOOKS_TOKEN: sandbox.token,
    STABLEHOOKS_SECRET: secret,
    SINCE: since,
  };
  let watermark = 0;
  let endpointId: string | undefined;

  async function start(): Promise<ChildProcess> {
    const env = { ...settings, MAX_LIMIT: String(maxLimit) };
    const child = fork(program.file, { env, execArgv: [] });
    const [{ address }] = (await once(child, 'message')) as [ReceiverMessage];
    child.on('message', (message: ReceiverMessage) => {
      if (message.proven && typeof message.watermark === 'string') watermark = Date.parse(message.watermark);
      if (message.acknowledged) acknowledged.push(message.acknowledged);
    });
    // Its port is new each time: deliveries to the old port are lost.
    if (endpointId !== undefined) sandbox.endpoints.remove(endpointId);
    endpointId = sandbox.endpoints.add({ url: `http://127.0.0.1:${address?.port}/hooks` }).id;
    return child;
  }

  const acknowledged: Gap[] = [];
  let gapsSeen = 0;
  /** Every event that the file's state calls recorded is recorded, and every gap that was acknowledged is kept. */
  async function checkState() {
    const file = new Database(join(folder, 'inbox.db'));
    const inbox = sqliteInbox(file);
    const { watermark: stored, gaps } = await readPollState(inbox);
    gapsSeen += gaps.length;
    for (const { id, type, created_at } of sandbox.events({ limit: 100_000 })) {
      const at = Date.parse(created_at);
      if (stored === null || at <= Date.parse(since) || at > stored) continue;
      const isInGap = gaps.some((gap) => at > gap.from && at <= (gap.until[type] ?? 0));
      if (!isInGap) expect(await inbox.find(id), `${id} is before the watermark`).toBeDefined();
    }
    const kept = (await listGaps(inbox)).filter(({ state }) => state === 'acknowledged');
    expect(kept).toEqual(expect.arrayContaining(acknowledged));
    file.close();
  }

  /** For each event, in how many kills it was in flight. */
  const inFlight = new Map<string, number>();
  async function noteInFlight() {
    const file = new Database(join(folder, 'inbox.db'));
    for (const { id } of await sqliteInbox(file).list({ state: 'leased', limit: 10_000 })) {
      inFlight.set(id, (inFlight.get(id) ?? 0) + 1);
    }
    file.close();
  }

  const fire = [sandbox.accept, sandbox.transfer, sandbox.redeem] as const;
  // So many of each type that a list of 50 is cut.
  for (let index = 0; index < 180; index++) {
    sandbox.emit(EVENT_TYPES[[0, 1, 3][index % 3] ?? 0] ?? 'accept.confirmed');
  }
  let child = await start();
  for (let kill = 0; kill < KILLS; kill++) {
    // The random wait is the subject of the test, not a synchronisation.
    for (let index = 0; index < 8; index++) {
      fire[index % fire.length]?.();
      await pause(Math.random() * 20);
    }
    // Every second one lives for some polls and acknowledgements.
    for (let left = kill % 2 === 0 ? 0 : 3; left > 0; left--) await once(child, 'message');
    await pause(Math.random() * 50);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await noteInFlight();
    await checkState();
    // A poller that asks for no more than the 50 oldest events opens gaps, and one that asks for all closes them.
    const isCut = kill % 6 >= 2 && kill < KILLS - 2;
    maxLimit = isCut ? 50 : 100_000;
    sandbox.faults.set({ listOrder: isCut ? 'oldest' : 'newest' });
    child = await start();
  }
  // Kills that hit nothing show nothing.
  expect(gapsSeen).toBeGreaterThan(0);
  expect(inFlight.size).toBeGreaterThan(0);

  const fired = sandbox.events({ limit: 100_000 }).map(({ id }) => id);
  const ledger = () => readFileSync(join(folder, 'ledger'), 'utf8').trimEnd().split('\n');
  const last = Date.now();
  await vi.waitFor(() => expect(new Set(ledger())).toEqual(new Set(fired)), {
    timeout: 120_000,
    interval: 100,
  });
  await vi.waitFor(() => expect(watermark).toBeGreaterThanOrEqual(last), { timeout: 120_000, interval: 100 });
  child.kill('SIGKILL');
  await once(child, 'exit');
  await sandbox.close();

  const runs = new Map<string, number>();
  for (const id of ledger()) runs.set(id, (runs.get(id) ?? 0) + 1);
  const again = [...runs].filter(([, count]) => count > 1);
  expect(again.filter(([id, count]) => count - 1 > (inFlight.get(id) ?? 0))).toEqual([]);
  console.log(
    `${KILLS} kills, ${fired.length} events, ${inFlight.size} in flight at a kill, ${again.length} ran again; ${gapsSeen} gaps seen, ${acknowledged.length} acknowledged`,
  );
  rmSync(folder, { recursive: true });
});
