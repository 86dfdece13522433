/** Runs the world of a scenario, from its first event until everything has ended. */
import { memoryInbox } from 'stablehooks';
import { type SqliteLike, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { type App, startApp } from './app.js';
import { toBalancer } from './network.js';
import { Promises } from './promises.js';
import { SimulatedQueue } from './queue.js';
import type { Scenario } from './scenario.js';
import { type Store, type TransactionalStore, withTransactions } from './transactional-store.js';
import { Process, START_MS, type TraceLine, type Violation, World } from './world.js';

export interface Result {
  /** The same for the same scenario, whatever the machine does besides. */
  readonly hash: string;
  readonly violation: Violation | undefined;
  readonly turns: number;
  readonly virtualMs: number;
  readonly occurrences: ReadonlyMap<string, number>;
}

type Database = SqliteLike & { close(): void };

export interface SimulateOptions {
  /** Opens a database in memory. */
  readonly openDatabase: () => Database;
  /** Gets a line for whatever happens. */
  readonly trace?: TraceLine[] | undefined;
}

/** The key that the service signs with. */
const SECRET = 'the secret of the simulation';

/** As many attempts at a time as there can be: the sandbox holds a first attempt back by its faults alone. */
const SERVICE_CONCURRENCY = 1_000;

/** How long a calm world can take until everything has ended. */
const CALM_LIMIT_MS = 3 * 3_600_000;

export async function simulate(
  scenario: Scenario,
  { openDatabase, trace }: SimulateOptions,
): Promise<Result> {
  const { faults } = scenario;
  const world = new World({ ...scenario, trace, disturb });
  const promises = new Promises(world, scenario);
  const apps = new Map<number, App>();
  const { fetch, underWay } = toBalancer({
    world,
    promises,
    faults,
    secret: SECRET,
    processes: () => [...apps.values()],
  });
  const { endpoints, ...serviceOptions } = scenario.sandbox;
  const sandbox = createSandbox({
    ...serviceOptions,
    seed: scenario.seed,
    secret: SECRET,
    concurrency: SERVICE_CONCURRENCY,
    runtime: world.runtime(world.outside),
    endpoints: Array.from({ length: endpoints }, () => ({ fetch })),
    faults: scenario.serviceFaults,
  });
  const queue = new SimulatedQueue(world, promises, faults);
  const database = scenario.inbox === 'sqlite' ? openDatabase() : undefined;
  const inbox = openInbox(world, scenario, database);
  const { token } = sandbox;
  const around = { world, promises, scenario, sandbox, inbox, queue, secret: SECRET, token };
  const closing = new Set<Process>();
  let starts = 0;

  function start(host: number): void {
    starts += 1;
    const name = `process ${host + 1}.${starts}`;
    const process = new Process(name, { ...scenario.hosts[host], startedAt: world.now });
    world.note(process, 'starts');
    apps.set(host, startApp(process, around));
  }

  function restartLater(host: number, ms: number): void {
    world.after(world.outside, ms, 'a host starts its process again', () => start(host));
  }

  function hostOf(process: Process): number | undefined {
    return [...apps].find(([, app]) => app.process === process)?.[0];
  }

  /** Crashes, restarts and pauses, at any turn of a process. */
  function disturb(process: Process, text: string): void {
    const host = hostOf(process);
    if (host === undefined) return;
    if (world.strikes('crash', faults.crash)) {
      world.note(process, `crashes when this would have happened: ${text}`);
      stop(host, process, world.random.integer(0, 20_000));
    } else if (!closing.has(process) && world.strikes('restart', faults.restart)) {
      process.isCutOff = world.strikes('cutOff', faults.cutOff);
      world.note(process, process.isCutOff ? 'is closed, and its inbox stops answering' : 'is closed');
      void close(host, process);
    } else if (world.strikes('pause', faults.pause)) {
      const ms = world.random.integer(100, 20_000);
      process.pausedUntil = world.now + ms;
      world.note(process, `is paused for ${ms} ms`);
    }
  }

  function stop(host: number, process: Process, downMs: number): void {
    apps.delete(host);
    closing.delete(process);
    process.end();
    restartLater(host, downMs);
  }

  async function close(host: number, process: Process): Promise<void> {
    closing.add(process);
    const end = () => {
      closing.delete(process);
      if (!process.ended) stop(host, process, 100);
    };
    // As a supervisor does: kills a process that does not end.
    world.after(world.outside, scenario.receiver.leaseMs + 60_000, 'a supervisor kills a process', end);
    await apps.get(host)?.close();
    end();
  }

  for (const [index, { atMs, type, key }] of scenario.events.entries()) {
    world.after(world.outside, atMs, 'the service creates an event', () => {
      // The first attempt can begin before `emit` returns.
      const payload = { index, key, amount: `${index + 1}.00` };
      const { id } = sandbox.emit(type, payload);
      world.note(world.outside, `creates the event ${index}: ${type}, key ${key}`, id);
    });
  }
  sandbox.subscribe(({ kind, data }) => {
    if (kind !== 'event.fired') return;
    const { delivered: _, ...event } = data as Parameters<Promises['genuine']['set']>[1];
    promises.genuine.set(event.id, event);
  });
  for (const host of scenario.hosts.keys()) start(host);
  world.after(world.outside, scenario.calmAtMs, 'all faults end', () => {
    world.calm = true;
    world.note(world.outside, 'all faults end');
    sandbox.faults.clear();
  });

  let nextLookAt = 0;
  const isQuiet = () => {
    if (!world.calm || world.now < nextLookAt) return false;
    nextLookAt = world.now + 1_000;
    if (world.now > START_MS + scenario.calmAtMs + CALM_LIMIT_MS) {
      const [first] = promises.unfinished();
      if (first !== undefined) {
        world.violate('every event is done, dead or parked in the end', first.why, first.id);
      } else {
        const left = `${underWay()} deliveries and ${queue.size} jobs are left.`;
        world.violate('every delivery and every job ends', left);
      }
      return true;
    }
    return (
      apps.size - closing.size === scenario.hosts.length &&
      queue.size + underWay() === 0 &&
      sandbox.deliveries({ state: 'pending', limit: 1 }).length === 0 &&
      promises.unfinished().next().done === true
    );
  };
  await world.run(isQuiet);

  let closed = 0;
  const last = [...apps.values()];
  for (const { close } of last)
    void close().then(() => {
      closed += 1;
    });
  const closeBy = world.now + 2 * scenario.receiver.leaseMs + 60_000;
  await world.run(() => closed === last.length || world.now > closeBy);
  if (world.violation === undefined) {
    if (closed < last.length) {
      world.violate('every process can be closed', `${last.length - closed} did not close.`);
    }
    promises.checkEnd();
  }
  for (const { process } of last) process.end();
  countServiceFaults();
  void sandbox.close();
  database?.close();
  return {
    hash: world.hash(),
    violation: world.violation,
    turns: world.turns,
    virtualMs: world.now - START_MS,
    occurrences: world.occurrences,
  };

  function countServiceFaults(): void {
    const { delay, delayMs, reorder, reorderMs = 0 } = scenario.serviceFaults;
    for (const { faults: occurred, eventId, startedAt, number } of sandbox.attempts()) {
      // An unsent delivery has no other fault, and a cut connection is not reset.
      const hiding = ['drop', 'cut'].find((fault) => occurred.includes(fault));
      const effective = occurred.filter((fault) => fault === 'duplicate' || fault === (hiding ?? fault));
      for (const fault of effective) world.count(fault);
      const createdAt = promises.genuine.get(eventId)?.created_at ?? startedAt;
      const heldMs = Date.parse(startedAt) - Date.parse(createdAt);
      if (number !== 1 || heldMs === 0) continue;
      // Where either can be the reason, neither is counted unless it is certain.
      const isExact = heldMs === delayMs;
      if (delay !== undefined && (reorder === undefined || isExact || heldMs > reorderMs))
        world.count('delay');
      if (reorder !== undefined && (delay === undefined || !isExact)) world.count('reorder');
    }
  }
}

/** All processes share the store and its clock. */
function openInbox(
  world: World,
  { inbox }: Scenario,
  database: SqliteLike | undefined,
): Store | TransactionalStore {
  const runtime = { now: () => world.now, uuid: () => world.outside.uuid() };
  if (database !== undefined) return sqliteInbox(database, { runtime });
  const memory = memoryInbox({ runtime });
  return inbox === 'transactional' ? withTransactions(memory, runtime) : memory;
}
