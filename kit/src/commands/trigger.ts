import { Command } from 'commander';
import type { EventType, UnknownEvent } from 'stablehooks';
import {
  type Copy,
  type EndpointAnswer,
  isAccepted,
  isNotDue,
  isWrongTarget,
  outcomeOf,
} from '../io/answer.js';
import { type DeliveryRow, noteNotDue, noteUnaccepted, printRow, summarise } from '../io/delivery-rows.js';
import { usageError } from '../io/errors.js';
import { EXIT, interruptedExit, isInterruption, toPlain } from '../io/output.js';
import { nameEndpoint } from '../io/place.js';
import { createSender } from '../io/sender.js';
import {
  addAction,
  addSecretFlags,
  addServiceFlags,
  type CommandContext,
  collect,
  isObject,
  parseCount,
  parseEndpoint,
  parseEventType,
  parseWait,
  readPayload,
  refuseFlags,
  refuseRounding,
  type Settings,
} from '../io/settings.js';

interface TriggerFlags {
  readonly to?: string;
  readonly set: readonly string[];
  readonly payload?: string;
  readonly count: number;
  readonly duplicate?: boolean;
  readonly timeout: number;
}

export function triggerCommand(): Command {
  const command = new Command('trigger')
    .argument('<type>', 'event type, such as transfer.settled')
    .option(
      '--to <url>',
      'endpoint to send the event to (default: let the sandbox deliver it)',
      parseEndpoint,
    )
    .option(
      '--set <assignment>',
      'set a field: payload.NAME=STRING, payload.NAME:=JSON, id=STRING or created_at=STRING',
      collect,
      [],
    )
    .option('--payload <file>', 'JSON file to send as the payload')
    .option('--count <number>', 'number of events to send', parseCount, 1)
    .option('--duplicate', 'send each event twice, to check that the handler runs only once')
    .option('--timeout <duration>', 'how long to wait for a response', parseWait, 10_000);
  addServiceFlags(addSecretFlags(command));
  return addAction(command, trigger, [
    'stablehooks trigger transfer.settled --to http://localhost:3000/hooks --set payload.amount=10.50',
  ]);
}

async function trigger(context: CommandContext<TriggerFlags>) {
  const { args, flags, printer, signal } = context;
  const draft = await readDraft(parseEventType(args[0] ?? ''), flags);
  const sender = await chooseFire(context);
  const times = flags.duplicate ? 2 : 1;
  const total = flags.count * times * sender.rowsPerEvent;
  const rows: Pick<DeliveryRow, 'answer'>[] = [];
  /** The outcome of each second copy. */
  const copies: (string | undefined)[] = [];
  const unexpected: EndpointAnswer[] = [];
  const notDue: string[] = [];
  let isWrong = false;

  async function fireOnce(event: UnknownEvent, copy: Copy): Promise<void> {
    for (const row of await sender.fire(event)) {
      const { answer } = row;
      rows.push({ answer });
      if (copy === 'repeated') copies.push(outcomeOf(answer));
      if (!isAccepted(answer, copy)) unexpected.push(answer);
      if (isNotDue(answer)) notDue.push(row.event.id);
      printRow(printer, row, () => isAccepted(answer, copy));
    }
    // A sandbox delivers each event to all its endpoints, so the target is wrong only if every response says so.
    const first = rows.slice(0, sender.rowsPerEvent).map(({ answer }) => answer);
    isWrong = rows.length === first.length && first.every(isWrongTarget);
  }
  try {
    for (let fired = 0; fired < flags.count && !signal.aborted && !isWrong; fired++) {
      const event = draft();
      for (let time = 0; time < times && !isWrong; time++)
        await fireOnce(event, time === 0 ? 'first' : 'repeated');
    }
  } catch (error) {
    // The summary below covers the events that were sent before Ctrl-C.
    if (!isInterruption(error)) throw error;
  }
  const answers = rows.map(({ answer }) => answer);
  if (total > 1 || signal.aborted) printer.note(summarise(rows, total));
  noteNotDue(printer, notDue);
  noteUnaccepted(printer, unexpected);
  const isUnreached = answers.some(({ kind }) => kind === 'unreachable');
  if (isUnreached && flags.to === undefined) {
    printer.note('The sandbox opens this connection, so the environment and network of the sandbox apply.');
  }
  if (isWrong && rows.length < total)
    printer.note('Stopped: the first response shows that the URL or the secret is wrong.');
  const isAnswered = rows.length >= total && unexpected.length === 0;
  const isOnce = copies.every((outcome) => outcome === 'duplicate');
  const isGood = isAnswered && isOnce;
  if (flags.duplicate && isAnswered) {
    printer.note(
      isOnce
        ? 'The second copy was a duplicate: the handler ran once.'
        : 'This does not show that the handler ran only once, because the response to a second copy was not `duplicate`. Run `stablehooks doctor URL` to find out more.',
    );
  }
  if (signal.aborted) return interruptedExit();
  if (isUnreached) return EXIT.unreachable;
  return isGood ? EXIT.good : EXIT.failed;
}

type Json = Record<string, unknown>;

/** Each event has its own id unless `--set` sets the id. */
async function readDraft(
  type: EventType,
  { payload: payloadFile, set }: TriggerFlags,
): Promise<() => UnknownEvent> {
  // Loading this module takes longer than printing `--help`.
  const { exampleEvent } = await import('stablehooks/testing');
  const payload = payloadFile === undefined ? exampleEvent(type).payload : await readPayload(payloadFile);
  const assignments = set.map(parseAssignment);
  const draft = () => {
    const event: Json = {
      ...exampleEvent(type, { created_at: new Date().toISOString() }),
      payload: structuredClone(payload),
    };
    for (const assign of assignments) assign(event);
    return event as unknown as UnknownEvent;
  };
  // If an assignment does not fit the payload, this call throws before anything is sent.
  draft();
  return draft;
}

/** `=` sets a string, because the service's amounts are strings. `:=` sets JSON. */
function parseAssignment(assignment: string): (event: Json) => void {
  const [, path = '', operator, value = ''] = /^([\w.-]+?)(:?=)(.*)$/s.exec(assignment) ?? [];
  const names = path.split('.');
  // Outside the payload, only these two fields can be set, and only to strings.
  const allowed = names[0] === 'payload' || ((path === 'id' || path === 'created_at') && operator === '=');
  if (!allowed || operator === undefined || names.includes('__proto__') || names.includes('')) {
    throw usageError(
      '--set accepts payload.NAME=STRING, payload.NAME:=JSON, id=STRING or created_at=STRING.',
    );
  }
  const parsed = operator === '=' ? value : parseJson(value, path);
  if (path === 'payload' && !isObject(parsed))
    throw usageError('--set payload: a payload must be a JSON object. Write payload:={"NAME": VALUE}.');
  return (event) => {
    let object = event;
    for (const [index, name] of names.slice(0, -1).entries()) {
      const next = Object.hasOwn(object, name) ? object[name] : {};
      if (!isObject(next)) {
        const place = names.slice(0, index + 1).join('.');
        throw usageError(
          `--set ${toPlain(path)}: ${toPlain(place)} is not an object. Set the whole value: ${toPlain(place)}:=JSON.`,
        );
      }
      object[name] = next;
      object = next;
    }
    object[names.at(-1) ?? ''] = parsed;
  };
}

function parseJson(value: string, path: string): unknown {
  let parsed: unknown;
  try {
    parsed = JSON.parse(value);
  } catch {
    throw usageError(
      '--set NAME:=JSON: the value after := is not valid JSON. For a string, write NAME=STRING.',
    );
  }
  refuseRounding(value, `--set ${toPlain(path)}`);
  return parsed;
}

interface EventSender {
  /** The number of endpoints, because `fire` returns one row per endpoint. */
  readonly rowsPerEvent: number;
  /** In the sandbox, the event gets a different id. */
  fire(event: UnknownEvent): Promise<readonly DeliveryRow[]>;
}

async function chooseFire({
  flags,
  given,
  settings,
  signal,
}: CommandContext<TriggerFlags>): Promise<EventSender> {
  const { to, timeout } = flags;
  if (to !== undefined) {
    refuseFlags(
      given,
      ['baseUrl', 'tokenFile'],
      'has no effect with --to, because the event is sent directly, without the service.',
    );
    const sender = await createSender(to, settings, timeout);
    return {
      rowsPerEvent: 1,
      fire: async (event) => [{ event, answer: await sender.send(event) }],
    };
  }
  refuseFlags(
    given,
    ['secretFile', 'encoding', 'header', 'prefix'],
    'has no effect without --to, because the sandbox signs with the settings of its endpoint.',
  );
  if (flags.set.some((assignment) => !assignment.startsWith('payload')))
    throw usageError('The sandbox chooses id and created_at itself. Pass --to URL to set them.');
  return fireInSandbox(settings, { signal, timeoutMs: timeout });
}

const NO_ENDPOINT =
  'The sandbox has no endpoint to deliver to. Start it with --to URL, or pass --to URL here.';

/** An event that has already been fired is redelivered. */
async function fireInSandbox(
  settings: Settings,
  options: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<EventSender> {
  // An event that is sent directly does not need the sandbox client.
  const { connectSandbox } = await import('../io/sandbox-client.js');
  const sandbox = await connectSandbox(settings, options);
  const { endpoints } = sandbox;
  if (endpoints.length === 0) throw usageError(NO_ENDPOINT);
  const fired = new WeakMap<UnknownEvent, string>();

  async function begin(event: UnknownEvent) {
    const known = fired.get(event);
    const earlier = known === undefined ? [] : await sandbox.deliveries(known);
    const id = known ?? (await sandbox.emit(event.type, event.payload));
    fired.set(event, id);
    if (known !== undefined) await sandbox.redeliver(id);
    const before = new Set(earlier.map((delivery) => delivery.id));
    return { id, deliveries: (await sandbox.deliveries(id)).filter((delivery) => !before.has(delivery.id)) };
  }

  return {
    rowsPerEvent: endpoints.length,
    async fire(event) {
      const { id, deliveries } = await begin(event);
      const answers = deliveries.map(async (delivery) => ({
        endpointId: delivery.endpointId,
        answer: await sandbox.firstAnswer(delivery),
      }));
      const answered = await Promise.all(answers);
      return endpoints.flatMap(({ id: endpointId, url }) =>
        answered
          .filter((one) => one.endpointId === endpointId)
          .map(({ answer }) => ({
            event: { ...event, id },
            answer,
            ...(endpoints.length > 1 && { endpoint: nameEndpoint(url) }),
          })),
      );
    },
  };
}
