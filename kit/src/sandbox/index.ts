/** `stablehooks-kit/sandbox`: a simulated service on your machine. */
import { judgeAttempt } from '../explain/verdict.js';
import { answerOf } from './answer.js';
import { createApp, refuseOtherSites } from './app.js';
import { createClock } from './clock.js';
import { bytesOf, createDeliveries } from './deliveries.js';
import { createEndpoints, resendInput, toEndpoint } from './endpoints.js';
import { createEventLog, type SandboxEvent } from './events.js';
import { createFaults } from './faults.js';
import { createFeed } from './feed.js';
import { createMovements, randomPayload } from './movements.js';
import { readSandboxOptions, type SandboxOptions } from './options.js';
import { createRandom } from './random.js';
import type { Sandbox, SandboxOperations } from './sandbox.js';
import { type Listening, listen, readListenOptions } from './server.js';
import { check } from './validation.js';
import { createWalletStore, toWallet } from './wallets.js';

export type { Finding as Verdict } from '../explain/replies.js';
export type { ClockMode, SandboxClock } from './clock.js';
export type { Attempt, Delivery, DeliveryState, Resending } from './deliveries.js';
export type { Endpoint, EndpointFetch, EndpointInput, SandboxEndpoints } from './endpoints.js';
export type { ListOrder, SandboxEvent, SandboxEventQuery } from './events.js';
export type { Chance, Faults, FaultsInput, SandboxFaults } from './faults.js';
export type { FeedEntry } from './feed.js';
export type {
  AcceptInput,
  Movement,
  MovementKind,
  MovementOperations,
  MovementState,
  RedeemFailure,
  RedeemInput,
  SendInput,
  TransferFailure,
  TransferInput,
} from './movements.js';
export type { SandboxOptions } from './options.js';
export type { DeliveryQuery, Sandbox, SandboxOperations } from './sandbox.js';
export type { Listening, ListenOptions } from './server.js';
export { type FieldError, SandboxError, type SandboxErrorCode } from './validation.js';
export type { Account, LimitsInput, WalletInput } from './wallets.js';

/**
 * Creates a sandbox: a simulated service on your machine that can inject faults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` if an option is invalid. The message names the option.
 *
 * @example
 * ```ts
 * const sandbox = createSandbox({ endpoints: [{ url: 'http://127.0.0.1:3000/hooks' }] });
 * sandbox.accept({ amount: '25.00' });
 * await sandbox.settled();
 * ```
 */
export function createSandbox(options: SandboxOptions = {}): Sandbox {
  const settings = readSandboxOptions(options);
  const { token, secret, seed = Math.floor(Math.random() * 2 ** 32) } = settings;
  const random = createRandom(seed);
  const { settleTimeoutMs } = settings;
  const startsAtMs = Date.parse(settings.startsAt);
  const clock = createClock({ mode: settings.clock, startsAtMs, settleTimeoutMs, runtime: settings.runtime });
  const feed = createFeed(clock.now);
  const faults = createFaults(random, settings.faults);
  const endpoints = createEndpoints(random, settings);
  const wallets = createWalletStore(random, settings.initialBalance);
  const events = createEventLog(random, settings.maxEvents);
  const deliveries = createDeliveries({ clock, random, faults, endpoints, events, feed }, settings);
  const movements = createMovements({ clock, random, wallets, feed, fire }, settings);
  const listening = new Set<Listening>();
  let requests = 0;
  let tokenRenewedAt = clock.now();

  function fire(type: string, payload: unknown): SandboxEvent {
    const event = events.append({ type, payload }, clock.now());
    // The delivery begins first, because a listener may reset the sandbox, and the reset must end the delivery as well.
    deliveries.begin(event);
    feed.publish('event.fired', { ...event });
    return event;
  }

  function publish<Data>(kind: string, data: Data): Data {
    feed.publish(kind, data);
    return data;
  }

  const operations: SandboxOperations = {
    ...movements.operations,
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
      set: (change) => publish('faults.set', faults.set(change)),
      clear: () => publish('faults.set', faults.clear()),
    },
    endpoints: {
      add: (input) => publish('endpoint.added', toEndpoint(endpoints.add(input))),
      list: () => endpoints.list().map(toEndpoint),
      remove: (id) => {
        endpoints.remove(id);
        deliveries.abandon(id);
        feed.publish('endpoint.removed', { id });
      },
      rotateSecret: (id, next) =>
        publish('endpoint.secret_rotated', toEndpoint(endpoints.rotateSecret(id, next))),
    },
    wallets: {
      create: (input) => publish('wallet.created', toWallet(wallets.create(input))),
      updateLimits: (id, input) =>
        publish('wallet.limits_updated', toWallet(wallets.updateLimits(id, input))),
      get: wallets.get,
      list: wallets.list,
    },
    emit: (type, payload) => {
      const key = `${events.count() + 1}`;
      return { ...fire(type, payload ?? randomPayload(random, { type, key, now: clock.now() })) };
    },
    events: events.list,
    redeliver: (eventId) => deliveries.begin(events.get(eventId)),
    resend: async (deliveryId, change = {}) => deliveries.resend(deliveryId, check(resendInput, change)),
    explain: (attempt) => {
      const { headers } = attempt.request;
      const judged = { headers, body: bytesOf(attempt.request), answer: answerOf(attempt) };
      return judgeAttempt(judged, endpoints.find(attempt.endpointId));
    },
    deliveries: ({ eventId, state, limit } = {}) =>
      deliveries
        .list()
        .filter((one) => eventId === undefined || one.eventId === eventId)
        .filter((one) => state === undefined || one.state === state)
        .slice(0, limit),
    attempts: ({ eventId, limit } = {}) => {
      const kept = deliveries.attempts();
      const all = eventId === undefined ? kept : kept.filter((one) => one.eventId === eventId);
      return limit === undefined ? all : all.slice(Math.max(0, all.length - limit));
    },
    movements: ({ limit } = {}) => movements.list().slice(0, limit),
    subscribe: feed.subscribe,
    renewToken: () => {
      tokenRenewedAt = clock.now();
      feed.publish('token.renewed', {});
    },
    settled: clock.settled,
    reset: () => {
      clock.restart();
      requests = 0;
      tokenRenewedAt = clock.now();
      for (const part of [faults, endpoints, wallets, movements, events, deliveries]) part.reset();
      feed.publish('sandbox.reset', {});
    },
  };

  const api = { nextRequest: () => ++requests, tokenRenewedAt: () => tokenRenewedAt };
  const handler = createApp({ sandbox: operations, clock, faults, feed, ...api }, settings);

  return {
    ...operations,
    token,
    secret,
    seed,
    fetch: async (request) => handler(request),
    listen: async (port, listenOptions) => {
      const settings = readListenOptions(listenOptions);
      const names = [settings.hostname, ...settings.allowedHosts];
      const server = await listen(refuseOtherSites(handler, names), port, settings);
      listening.add(server);
      return server;
    },
    close: async () => {
      await Promise.all([...listening].map((server) => server.close()));
      deliveries.stop();
      clock.stop();
    },
  };
}
