/** Twelve incidents: `status` names the check of each, and the command of its section in the runbook shows the cause. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { HealthCheckName } from 'stablehooks/health';
import type { SandboxOptions } from 'stablehooks-kit/sandbox';
import { describe, expect, test } from 'vitest';
import { type CommandOptions, makeFolder, run, SECRET, start } from '../command.js';
import { findClosedUrl } from '../http-server.js';
import { startService, TOKEN } from '../service.js';

const APP = fileURLToPath(new URL('app.mjs', import.meta.url));
const RUNBOOK = new URL('../../../docs/operations.md', import.meta.url);
const TEN_MINUTES = 600_000;

type OnEnd = (end: () => Promise<void>) => void;

/** Starts an app as a process. `within` is a command that runs it. */
async function startApp(onEnd: OnEnd, env: Readonly<Record<string, string>>, within: readonly string[]) {
  const [file = '', ...args] = [...within, process.execPath, APP];
  const app: ChildProcess = spawn(file, args, {
    env: { PATH: process.env['PATH'], SECRET, TOKEN, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(app, 'close');
  const kill = async () => {
    app.kill('SIGKILL');
    await ended;
  };
  onEnd(kill);
  if (app.stdout === null) throw new TypeError('Its output is not read.');
  const lines = createInterface(app.stdout)[Symbol.asyncIterator]();
  const url = String((await lines.next()).value);
  return {
    ...{ url, kill, ended, pid: app.pid },
    /** Polls until the report says this. */
    async polls(diagnosis: RegExp): Promise<void> {
      for (let said = ''; !diagnosis.test(said); ) {
        app.kill('SIGUSR2');
        const { value, done } = await lines.next();
        if (done) throw new Error(`The app ended. Its last poll said: ${said}`);
        said = String(value);
      }
    },
    push: (type = 'transfer.settled', options: CommandOptions = {}) =>
      run(['trigger', type, '--to', url], options),
  };
}

async function startList(onEnd: OnEnd, options: SandboxOptions) {
  const service = await startService(options);
  onEnd(async () => service[Symbol.asyncDispose]());
  const emit = (count: number) => {
    for (let index = 0; index < count; index += 1) service.sandbox.emit('transfer.settled');
  };
  return { ...service, emit };
}

/** What an incident is planted with. */
const createWorld = (inbox: string, onEnd: OnEnd) => ({
  inbox,
  startApp: (env: Readonly<Record<string, string>> = {}, within: readonly string[] = []) =>
    startApp(onEnd, { DATABASE: inbox, ...env }, within),
  startList: (options: SandboxOptions = {}) => startList(onEnd, options),
});

interface Planted {
  /** The command of the runbook, and how it and `status` are run. */
  readonly look: readonly string[];
  readonly options?: CommandOptions;
}

interface Incident {
  readonly name: string;
  readonly check: HealthCheckName;
  /** Whether the verdict only names it as not shown yet. */
  readonly isCalm?: true;
  readonly plant: (world: ReturnType<typeof createWorld>) => Promise<Planted>;
  readonly shows: RegExp;
}

const INCIDENTS: readonly Incident[] = [
  {
    name: 'an expired token',
    check: 'poll',
    async plant({ startApp, startList }) {
      const { url, env } = await startList({ token: 'tok_of_tomorrow' });
      const app = await startApp({ BASE_URL: url, CLOCK_MS: String(-TEN_MINUTES) });
      await app.polls(/could not be read/);
      return { look: ['events', 'list'], options: { env } };
    },
    shows: /The service rejected the token \(401\)/,
  },
  {
    name: 'a wrong secret',
    check: 'refused',
    async plant({ inbox, startApp }) {
      const app = await startApp();
      const options = { env: { STABLEHOOKS_SECRET: 'of another endpoint' } };
      for (let count = 0; count < 6; count += 1) await app.push('transfer.settled', options);
      const watching = start(['status', '--inbox', inbox, '--watch', '100ms']);
      await watching.printed('Needs you: refused');
      watching.interrupt();
      await watching.ended;
      return { look: ['doctor', app.url], options };
    },
    shows: /fail +genuine .* 401 ERR_SIGNATURE_MISMATCH/,
  },
  {
    name: 'a dead process',
    check: 'due',
    async plant({ startApp }) {
      const clock = { CLOCK_MS: String(-TEN_MINUTES) };
      const app = await startApp({ BANK_URL: await findClosedUrl(), ...clock });
      await app.push();
      await app.kill();
      return { look: ['inbox', 'list', '--state', 'failed'] };
    },
    shows: /transfer\.settled +\S+ +failed +10m/,
  },
  {
    name: 'an expired lease',
    check: 'leases',
    async plant({ startApp }) {
      const app = await startApp({ DIES: 'yes', CLOCK_MS: String(-TEN_MINUTES) });
      await app.push();
      await app.ended;
      return { look: ['inbox', 'list', '--state', 'leased'] };
    },
    shows: /transfer\.settled +\S+ +leased +10m/,
  },
  {
    name: 'a clock that is ahead',
    check: 'poll',
    async plant({ startApp, startList }) {
      const { url } = await startList();
      const app = await startApp({ BASE_URL: url, CLOCK_MS: String(12 * TEN_MINUTES) });
      await app.polls(/./);
      return { look: ['status'] };
    },
    shows: /poll +The last poll ran at \S+, which is in the future\. .*ERR_CLOCK_BEHIND/s,
  },
  {
    name: 'a read-only database',
    check: 'refused',
    async plant({ inbox, startApp }) {
      const app = await startApp();
      await app.push();
      await app.kill();
      for (const file of [inbox, `${inbox}-wal`, `${inbox}-shm`]) await chmod(file, 0o444);
      return { look: ['status'], options: { obeysRights: true } };
    },
    shows: /refused +The inbox's database rejects writes: attempt to write a readonly database\./,
  },
  {
    name: 'the list of another environment',
    check: 'gaps',
    async plant({ startApp, startList }) {
      const { url } = await startList();
      const app = await startApp({ BASE_URL: url });
      await app.polls(/./);
      for (let count = 0; count < 3; count += 1) await app.push();
      await app.polls(/pushed to you are not in the list/);
      return { look: ['gaps', 'list'] };
    },
    shows:
      /^open .* events that were pushed to you are not in the list\. Check that the client's baseUrl and token/,
  },
  {
    name: 'a capped list',
    check: 'coverage',
    isCalm: true,
    async plant({ startApp, startList }) {
      const { url, emit } = await startList({ faults: { listCap: 50 } });
      emit(120);
      const app = await startApp({ BASE_URL: url });
      await app.polls(/list may have been cut off/);
      return { look: ['gaps', 'list'] };
    },
    shows:
      /^unconfirmed .*cut off.*\nNot shown: no poll has yet proven that every event before the watermark/,
  },
  {
    name: 'a type without a handler',
    check: 'ignored',
    isCalm: true,
    async plant({ startApp }) {
      const app = await startApp();
      await app.push('redeem.failed');
      return { look: ['inbox', 'list', '--ignored'] };
    },
    shows: /redeem\.failed +\S+ +done \(ignored\)/,
  },
  {
    name: 'a dependency that fails',
    check: 'failing',
    async plant({ startApp }) {
      const app = await startApp({ BANK_URL: await findClosedUrl() });
      for (let count = 0; count < 4; count += 1) await app.push();
      return { look: ['inbox', 'errors'] };
    },
    shows: /^4 +failed .*\n {2}ERR_HANDLER_FAILED: fetch failed\n {2}stablehooks inbox requeue .*--group/m,
  },
  {
    name: 'a full disk',
    check: 'refused',
    async plant({ inbox, startApp }) {
      const disk = inbox.slice(0, inbox.lastIndexOf('/'));
      const mount = `mount -t tmpfs -o size=700k tmpfs '${disk}' && exec "$@"`;
      const within = ['unshare', '--mount', '--map-root-user', 'sh', '-c', mount, 'sh'];
      const app = await startApp({}, within);
      await app.push();
      const log = `/proc/${app.pid}/root${disk}/log`;
      await writeFile(log, Buffer.alloc(1_000_000)).catch(() => undefined);
      expect((await app.push()).stdout).toContain('503 ERR_INBOX_FAILED');
      const target = ['--target', String(app.pid), `--wd=${process.cwd()}`];
      const enter = ['nsenter', ...target, '--user', '--mount', '--preserve-credentials'];
      return { look: ['status'], options: { within: enter } };
    },
    shows: /refused +The inbox's database rejects writes: The disk has \d+ KiB of free space left\./,
  },
  {
    name: 'a gap that cannot close',
    check: 'gaps',
    async plant({ startApp, startList }) {
      const { url, sandbox, emit } = await startList();
      emit(100);
      const app = await startApp({ BASE_URL: url });
      await app.polls(/./);
      emit(200);
      sandbox.faults.set({ listCap: 60 });
      await app.polls(/removed events from the list before a poll saw them/);
      return { look: ['gaps', 'list'] };
    },
    shows:
      /^open .* removed events from the list before a poll saw them\. Run reconcile .*\n +stablehooks gaps acknowledge/m,
  },
];

describe.concurrent('status leads to the cause of', () => {
  test.for(INCIDENTS)('$name', async ({ check, isCalm = false, plant, shows }, { onTestFinished }) => {
    await using folder = await makeFolder();
    const { look, options } = await plant(createWorld(folder.at('app.db'), onTestFinished));
    const place = ['--inbox', folder.at('app.db')];
    const status = await run(['status', ...place], options);
    const verdict = status.stdout.trim().split('\n').at(-1);
    expect(verdict).toMatch(
      new RegExp(`${isCalm ? '(?:Look at|Not verified yet)' : 'Needs you'}: .*\\b${check}\\b`),
    );
    expect(status.exitCode).toBe(isCalm ? 0 : 1);
    expect(await readFile(RUNBOOK, 'utf8')).toContain(`\n### ${check}\n`);
    const usesInbox = ['inbox', 'gaps', 'status'].includes(String(look[0]));
    const { stdout, stderr } = await run([...look, ...(usesInbox ? place : [])], options);
    expect(stdout + stderr).toMatch(shows);
  });
});
