/** Puts the sandbox together from its parts. */
import { ConfigError } from 'stablehooks';
import { createApp } from './app.js';
import { createClock } from './clock.js';
import { createDeliveries } from './deliveries.js';
import { createEndpoints, toEndpoint } from './endpoints.js';
import { createEventLog } from './event-log.js';
import { createFaults } from './faults.js';
import { createFeed } from './feed.js';
import { listEvents } from './listing.js';
import { loadAll, saveAll } from './memory.js';
import { createMoney } from './money.js';
import { createMovements } from './movements.js';
import { type SandboxOptions, toSettings } from './options.js';
import { toExample } from './payloads.js';
import { SandboxError } from './problem.js';
import { createRandom } from './random.js';
import type { Sandbox, SandboxOperations } from './sandbox.js';
import { type Listening, listen } from './server.js';
import { notState, readState, type SandboxState } from './state-file.js';
import { keepState } from './state-keeper.js';
import { createTally } from './tally.js';
import { createWallets, toWallet } from './wallets.js';

/**
 * Makes a sandbox.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option, or the state file.
 *
 * @example
 * ```ts
 * const sandbox = createSandbox({ endpoints: [{ url: 'http://127.0.0.1:3000/hooks' }] });
 * sandbox.accept({ amount: '25.00' });
 * await sandbox.settled();
 * ```
 */
export function createSandbox(options: SandboxOptions = {}): Sandbox {
  const settings = toSettings(options);
  const { token, secret, maxEvents, maxBodyBytes, maxLimit } = settings;
  const saved = settings.stateFile === undefined ? undefined : readState(settings.stateFile);
  const seed = settings.seed ?? saved?.seed ?? Math.floor(Math.random() * 2 ** 32);

  const random = createRandom(seed);
  const startsAtMs = Date.parse(settings.startsAt);
  const clock = createClock({ mode: settings.clock, startsAtMs, settleTimeoutMs: settings.settleTimeoutMs });
  const feed = createFeed({ now: clock.now });
  const tally = createTally();
  const faults = configured(() => createFaults({ random, initial: settings.faults }));
  const endpoints = configured(() => createEndpoints({ random, secret, initial: settings.endpoints }));
  const wallets = createWallets({ random, initialBalance: settings.initialBalance });
  const movements = createMovements({ random, keptMovements: maxEvents });
  const events = createEventLog({ random, maxEvents });
  const deliveries = createDeliveries(
    { clock, random, faults, endpoints, events, feed, tally },
    { ...settings, keptDeliveries: maxEvents },
  );
  const money = createMoney({ clock, random, wallets, movements, feed, tally, fire }, settings);
  const listening = new Set<Listening>();
  let requests = 0;

  function fire(type: string, payload: unknown): ReturnType<typeof events.append> {
    const event = events.append({ type, payload }, { now: clock.now() });
    // First of all: a listener may well reset the sandbox, and the event must not outlive that.
    deliveries.begin(event);
    feed.publish('event.fired', { ...event });
    return event;
  }

  function told<Value>(kind: string, value: Value): Value {
    feed.publish(kind, value);
    return value;
  }

  const parts = { faults, endpoints, wallets, movements, events, deliveries, money };

  function load(from: SandboxState | undefined): void {
    clock.restart(from?.now);
    tally.clear();
    requests = 0;
    loadAll(parts, from);
  }

  try {
    load(saved);
  } catch {
    load(undefined);
    // Without the cause: it may quote the file, and that holds secrets.
    throw notState(settings.stateFile);
  }
  const state = () => saveAll(parts, { seed, now: clock.now() });
  const keeper = keepState({ feed, state }, { path: settings.stateFile, saveAfterMs: settings.saveAfterMs });

  const operations: SandboxOperations = {
    ...money.operations,
    clock: {
      mode: clock.mode,
      now: clock.now,
      advance: async (ms) => {
        await clock.advance(ms);
        feed.publish('clock.advanced', { now: new Date(clock.now()).toISOString() });
      },
    },
    faults: {
      get: faults.get,
      set: (change) => told('faults.set', faults.set(change)),
      clear: () => told('faults.set', faults.clear()),
    },
    endpoints: {
      add: (input) => told('endpoint.added', toEndpoint(endpoints.add(input))),
      list: () => endpoints.list().map(toEndpoint),
      remove: (id) => {
        endpoints.remove(id);
        deliveries.giveUp(id);
        feed.publish('endpoint.removed', { id });
      },
      rotateSecret: (id, next) =>
        told('endpoint.secret_rotated', toEndpoint(endpoints.rotateSecret(id, next))),
    },
    wallets: {
      create: (input) => told('wallet.created', toWallet(wallets.create(input))),
      updateLimits: (id, input) => told('wallet.limits_updated', toWallet(wallets.updateLimits(id, input))),
      get: wallets.get,
      list: wallets.list,
    },
    emit: (type, payload) => {
      const now = clock.now();
      return { ...fire(type, payload ?? toExample(random, { type, key: `${events.count() + 1}`, now })) };
    },
    events: events.list,
    redeliver: (eventId) => deliveries.begin(events.get(eventId)),
    deliveries: ({ eventId, state, limit } = {}) =>
      deliveries
        .list()
        .filter((one) => eventId === undefined || one.eventId === eventId)
        .filter((one) => state === undefined || one.state === state)
        .slice(0, limit),
    attempts: ({ eventId, limit } = {}) => {
      const all = deliveries.attempts().filter((one) => eventId === undefined || one.eventId === eventId);
      return limit === undefined ? all : all.slice(Math.max(0, all.length - limit));
    },
    movements: ({ limit } = {}) => movements.list().slice(0, limit),
    subscribe: feed.subscribe,
    settled: async () => {
      for (;;) {
        if (clock.mode === 'manual') await clock.quiet();
        if (tally.count === 0) return;
        if (clock.mode === 'real' || !clock.step()) await tally.whenNone();
      }
    },
    reset: () => {
      load(undefined);
      feed.publish('sandbox.reset', {});
    },
  };

  const service = {
    createWallet: operations.wallets.create,
    updateLimits: operations.wallets.updateLimits,
    listEvents: (request: Parameters<typeof listEvents>[0]) => listEvents(request, { events, faults, clock }),
    now: clock.now,
    wait: clock.wait,
    nextRequest: () => ++requests,
  };
  const answer = createApp({ sandbox: operations, service, faults, feed }, { token, maxBodyBytes, maxLimit });

  return {
    ...operations,
    token,
    secret,
    seed,
    fetch: async (request) => answer(request),
    listen: async (port, listenOptions) => {
      const server = await listen(answer, { ...listenOptions, port });
      listening.add(server);
      return server;
    },
    save: keeper.save,
    close: async () => {
      await Promise.all([...listening].map((server) => server.close()));
      deliveries.stop();
      clock.stop();
      await keeper.close();
      tally.clear();
    },
  };
}

/** What is wrong with an option is told as every other fault of the options. */
function configured<Part>(make: () => Part): Part {
  try {
    return make();
  } catch (cause) {
    if (cause instanceof SandboxError) throw new ConfigError(cause.message, { cause });
    throw cause;
  }
}
