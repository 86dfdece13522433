import { setTimeout as wait } from 'node:timers/promises';
import { Command, InvalidArgumentError } from 'commander';
import type { EventType, UnknownEvent } from 'stablehooks';
import {
  createSender,
  type DeliveryRow,
  type EndpointAnswer,
  isDelivered,
  isNotDue,
  noteNotDue,
  printRow,
  readOutcome,
  type Sender,
  statusOf,
  summarise,
  toBytes,
} from '../io/delivery.js';
import { type CommandError, unreachableError, usageError } from '../io/errors.js';
import { EXIT, type ExitCode, interruptedExit, toPlain } from '../io/output.js';
import {
  addAction,
  addExample,
  addSecretFlags,
  addServiceFlags,
  type CommandContext,
  collect,
  isObject,
  parseCount,
  parseEventType,
  parseUrl,
  parseWait,
  readPayload,
  type Settings,
} from '../io/settings.js';
import type { Attempt, Delivery } from '../sandbox/index.js';

interface TriggerFlags {
  readonly to?: string;
  readonly set: readonly string[];
  readonly payload?: string;
  readonly count: number;
  readonly rate?: number;
  readonly duplicate?: boolean;
  readonly forge?: boolean;
  readonly tamper?: boolean;
  readonly timeout: number;
}

export function triggerCommand(): Command {
  const command = new Command('trigger')
    .argument('<type>', 'event type, such as transfer.settled')
    .option('--to <url>', 'endpoint to send to (default: the sandbox delivers it)')
    .option(
      '--set <assignment>',
      'payload.NAME=STRING or payload.NAME:=JSON; also id and created_at',
      collect,
      [],
    )
    .option('--payload <file>', 'JSON object to send as the payload')
    .option('--count <number>', 'how many events', parseCount, 1)
    .option('--rate <number>', 'how many per second (default: one after the other)', parseRate)
    .option('--duplicate', 'send each event twice')
    .option('--forge', 'sign with another secret; succeeds when the endpoint refuses it')
    .option('--tamper', 'change the body after signing; succeeds when the endpoint refuses it')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000);
  addServiceFlags(addSecretFlags(command));
  addExample(command, [
    'stablehooks trigger transfer.settled --to http://localhost:3000/hooks --set payload.amount=10.50',
  ]);
  return addAction(command, trigger);
}

/** A much lower rate would have to wait longer than a timer can. */
const MIN_RATE = 0.000_01;

function parseRate(value: string): number {
  const rate = Number(value);
  if (Number.isFinite(rate) && rate >= MIN_RATE) return rate;
  throw new InvalidArgumentError('Write a number from 0.00001, such as 0.5 or 100.');
}

async function trigger(context: CommandContext<TriggerFlags>): Promise<ExitCode> {
  const { args, flags, printer, signal } = context;
  const draft = await readDraft(parseEventType(args[0] ?? ''), flags);
  const fire = await chooseFire(context);
  const times = flags.duplicate ? 2 : 1;
  const total = flags.count * times;
  const rows: Pick<DeliveryRow, 'answer'>[] = [];
  const notDue: string[] = [];
  const progress = printer.progress('trigger', total);

  await repeat(flags.count, { perSecond: flags.rate, signal }, async () => {
    const event = draft();
    for (let time = 0; time < times; time++) {
      const row = await fire(event);
      rows.push({ answer: row.answer });
      if (isNotDue(row.answer)) notDue.push(row.event.id);
      printRow(printer, row);
      progress.show(rows.length);
    }
  });
  progress.clear();
  if (total > 1 || signal.aborted) printer.note(summarise(rows, total));
  noteNotDue(printer, notDue);
  if (signal.aborted) return interruptedExit();
  if (rows.some(({ answer }) => answer.kind === 'unreachable')) return EXIT.unreachable;
  const expected = flags.forge || flags.tamper ? isRefused : isDelivered;
  return rows.every(({ answer }) => expected(answer)) ? EXIT.good : EXIT.failed;
}

function isRefused(answer: EndpointAnswer): boolean {
  return statusOf(answer) >= 400 && statusOf(answer) < 500;
}

type Json = Record<string, unknown>;

/** Makes events from the example of the type and the flags, each with its own id unless `id` is set. */
async function readDraft(
  type: EventType,
  { payload: payloadFile, set }: TriggerFlags,
): Promise<() => UnknownEvent> {
  // Loading it may cost more than `--help` takes.
  const { exampleEvent } = await import('stablehooks/testing');
  const payload = payloadFile === undefined ? exampleEvent(type).payload : await readPayload(payloadFile);
  const assignments = set.map(parseAssignment);
  return () => {
    const event: Json = {
      ...exampleEvent(type, { created_at: new Date().toISOString() }),
      payload: structuredClone(payload),
    };
    for (const assign of assignments) assign(event);
    return event as unknown as UnknownEvent;
  };
}

/** Parses one `--set`. `=` sets a string, because amounts are strings in this service; `:=` sets JSON. */
function parseAssignment(assignment: string): (event: Json) => void {
  const [, path = '', operator, value = ''] = /^([\w.-]+?)(:?=)(.*)$/s.exec(assignment) ?? [];
  const names = path.split('.');
  // Outside the payload only two fields can be set, as strings.
  const allowed = names[0] === 'payload' || ((path === 'id' || path === 'created_at') && operator === '=');
  if (!allowed || operator === undefined || names.includes('__proto__') || names.includes('')) {
    throw usageError('--set takes payload.NAME=STRING, payload.NAME:=JSON, id=STRING or created_at=STRING.');
  }
  const parsed = operator === '=' ? value : parseJson(value);
  return (event) => {
    let object = event;
    for (const name of names.slice(0, -1)) {
      const next = object[name];
      const child = isObject(next) ? next : {};
      object[name] = child;
      object = child;
    }
    object[names.at(-1) ?? ''] = parsed;
  };
}

function parseJson(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    throw usageError('--set NAME:=JSON: the value after := is not JSON. For a string, write NAME=STRING.');
  }
}

/** At a rate, at most this many deliveries run at once, so that a slow endpoint is not overloaded. */
const MAX_CONCURRENT = 64;

/**
 * Runs the work `count` times, one after the other or at a rate. Starts no more once the signal aborts or one
 * failed, and waits for all that were started.
 *
 * @throws what the first failed one rejected with.
 */
async function repeat(
  count: number,
  { perSecond, signal }: { readonly perSecond: number | undefined; readonly signal: AbortSignal },
  work: () => Promise<void>,
): Promise<void> {
  const start = performance.now();
  const running = new Set<Promise<void>>();
  const failures: unknown[] = [];
  for (let started = 0; started < count && !signal.aborted && failures.length === 0; started++) {
    if (perSecond !== undefined) {
      const dueInMs = start + (started / perSecond) * 1_000 - performance.now();
      if (dueInMs > 1) await wait(dueInMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) break;
    }
    const one = work()
      .catch((error: unknown) => void failures.push(error))
      .finally(() => running.delete(one));
    running.add(one);
    if (perSecond === undefined || running.size >= MAX_CONCURRENT) await Promise.race(running);
  }
  await Promise.all(running);
  if (failures.length > 0) throw failures[0];
}

/** Sends one event. The sandbox gives it another id. */
type Fire = (event: UnknownEvent) => Promise<DeliveryRow>;

async function chooseFire({ flags, settings, signal }: CommandContext<TriggerFlags>): Promise<Fire> {
  const { to, timeout } = flags;
  if (to !== undefined) {
    const sender = await createSender(parseUrl(to, '--to'), settings, timeout);
    return async (event) => ({ event, answer: await sendAs(event, sender, flags) });
  }
  if (flags.forge || flags.tamper)
    throw usageError('--forge and --tamper send the event from here: pass --to URL.');
  if (flags.set.some((assignment) => !assignment.startsWith('payload')))
    throw usageError('The sandbox chooses id and created_at itself. Pass --to URL to set them.');
  return fireInSandbox(settings, { signal, timeoutMs: timeout });
}

function sendAs(event: UnknownEvent, sender: Sender, flags: TriggerFlags): Promise<EndpointAnswer> {
  const signed = toBytes(event);
  const body = flags.tamper ? toBytes({ ...event, payload: { ...event.payload, tampered: true } }) : signed;
  return sender.sendBytes(body, signed, flags.forge ? 'forged' : undefined);
}

/** How often the sandbox is asked for the attempt, in ms. */
const ASK_INTERVAL_MS = 25;

/** Has the sandbox fire events, and waits for the first attempt to deliver each. The same event is redelivered. */
async function fireInSandbox(
  settings: Settings,
  { signal, timeoutMs }: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<Fire> {
  const ask = await createControl(settings, signal);
  const endpoints = await ask('GET', '/endpoints');
  if (!Array.isArray(endpoints)) throw notASandbox(settings.baseUrl());
  if (endpoints.length === 0) {
    throw usageError(
      'The sandbox has no endpoint to deliver to. Start it with --forward-to URL, or pass --to URL here.',
    );
  }
  const fired = new WeakMap<UnknownEvent, string>();

  async function fireNew({ type, payload }: UnknownEvent): Promise<string> {
    const { id } = (await ask('POST', '/events', { type, payload })) as UnknownEvent;
    return id;
  }

  /** Redelivers the event, and returns the ids of its earlier deliveries. */
  async function redeliver(id: string): Promise<readonly string[]> {
    const encoded = encodeURIComponent(id);
    const before = (await ask('GET', `/deliveries?event=${encoded}`)) as readonly Delivery[];
    await ask('POST', `/events/${encoded}/redeliver`);
    return before.map((delivery) => delivery.id);
  }

  return async (event) => {
    const known = fired.get(event);
    const id = known ?? (await fireNew(event));
    fired.set(event, id);
    const earlier = new Set(known === undefined ? [] : await redeliver(id));
    const row = (answer: EndpointAnswer): DeliveryRow => ({ event: { ...event, id }, answer });
    for (const until = performance.now() + timeoutMs; performance.now() < until; ) {
      const attempts = (await ask('GET', `/attempts?event=${encodeURIComponent(id)}`)) as readonly Attempt[];
      const next = attempts.find(({ deliveryId }) => !earlier.has(deliveryId));
      if (next !== undefined) return row(toAnswer(next));
      await wait(ASK_INTERVAL_MS, undefined, { signal });
    }
    return row({ kind: 'silence', elapsedMs: timeoutMs });
  };
}

function toAnswer({ response, error, durationMs: elapsedMs }: Attempt): EndpointAnswer {
  if (response === null) return { kind: 'unreachable', reason: error ?? 'no answer', elapsedMs };
  return { kind: 'reply', status: response.status, ...readOutcome(response.body), elapsedMs };
}

/** Calls the control API of a sandbox. */
type AskSandbox = (method: 'GET' | 'POST', path: string, body?: unknown) => Promise<unknown>;

/** How much of an error's body is printed. */
const MAX_BODY_SHOWN = 300;

async function createControl(settings: Settings, signal: AbortSignal): Promise<AskSandbox> {
  const baseUrl = settings.baseUrl();
  const token = await settings.token();
  return async (method, path, body) => {
    const response = await fetch(`${baseUrl}/sandbox${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal,
    }).catch((cause) => {
      if (signal.aborted) throw cause;
      throw unreachableError(
        `${baseUrl} cannot be reached. Start \`stablehooks sandbox\`, or check --base-url.`,
        { cause },
      );
    });
    if (response.status === 401)
      throw usageError('The sandbox refused the token. Set STABLEHOOKS_TOKEN to what the sandbox printed.');
    // The service itself does not have /sandbox.
    if (response.status === 404 && path === '/endpoints') throw notASandbox(baseUrl);
    if (!response.ok) {
      const error = response.status < 500 && response.status !== 429 ? usageError : unreachableError;
      const message = toPlain((await response.text()).trim()).slice(0, MAX_BODY_SHOWN);
      throw error(`The sandbox answered ${response.status}: ${message || 'no body'}`);
    }
    if (response.status === 204 || response.status === 202) return undefined;
    return response.json().catch((cause) => {
      throw cause instanceof SyntaxError ? notASandbox(baseUrl) : cause;
    });
  };
}

function notASandbox(baseUrl: string): CommandError {
  return usageError(
    `${baseUrl} is not a sandbox, and only a sandbox fires events on request. Pass --to URL to send the event from here.`,
  );
}
