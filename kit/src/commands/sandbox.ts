import { once } from 'node:events';
import { Command, InvalidArgumentError, Option } from 'commander';
import { SIGNATURE_ENCODINGS, type SignatureEncoding } from 'stablehooks';
import { readOutcome } from '../io/delivery.js';
import { EXIT, type ExitCode, type Printer, toPlain } from '../io/output.js';
import {
  addAction,
  addExample,
  type CommandContext,
  collect,
  parseCount,
  parseDuration,
  parseUrl,
  toKebab,
} from '../io/settings.js';
import { type Attempt, createSandbox, type FaultsInput, type FeedEntry } from '../sandbox/index.js';

interface SandboxFlags extends FaultsInput {
  readonly port: number;
  readonly host: string;
  readonly forwardTo: readonly string[];
  readonly state?: string;
  readonly seed?: number;
  readonly encoding: SignatureEncoding;
  readonly header?: string;
  readonly listLag?: number;
}

/** FaultsInput with a chance, each of them a flag. */
const CHANCES = {
  drop: 'attempts that never arrive',
  duplicate: 'attempts that arrive twice',
  reorder: 'events that later ones overtake',
  delay: 'events that come late',
  corruptSignature: 'attempts with a wrong signature',
  reserialise: 'bodies that are serialized again after signing',
  cut: 'attempts cut off halfway',
  apiTooManyRequests: 'requests answered 429',
  apiServerError: 'requests answered 500',
  apiSlow: 'requests answered late',
  apiMalformed: 'requests answered with half of the JSON',
  listWrongDelivered: 'listed events whose delivered flag is wrong',
} as const satisfies Partial<Record<keyof FaultsInput, string>>;

export function sandboxCommand(): Command {
  const command = new Command('sandbox')
    .option('--port <number>', 'port to listen on, 0 for any', parseWhole, 4010)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--forward-to <url>', 'endpoint that events are delivered to; can be repeated', collect, [])
    .option(
      '--token-file <file>',
      'file with the token that requests must have (environment: STABLEHOOKS_TOKEN)',
    )
    .option('--secret-file <file>', 'file with the secret to sign with (environment: STABLEHOOKS_SECRET)')
    .option('--state <file>', 'JSON file that keeps the state (default: memory only)')
    .option('--seed <number>', 'the same seed gives the same run', parseWhole)
    .addOption(
      new Option('--encoding <name>', 'encoding of the signatures')
        .choices(SIGNATURE_ENCODINGS)
        .default('hex'),
    )
    .option('--header <name>', 'header of the signature (default: X-SERVICE-Signature)');
  for (const [fault, what] of Object.entries(CHANCES)) {
    command.option(`--${toKebab(fault)} <chance>`, `chance, from 0 to 1, of ${what}`, parseChance);
  }
  command
    .addOption(
      new Option('--list-order <order>', 'order of the list').choices(['newest', 'oldest', 'shuffled']),
    )
    .option('--list-cap <number>', 'how many events the list returns at most', parseCount)
    .option('--list-lag <duration>', 'how long after its creation an event is listed', parseDuration);
  addExample(command, ['stablehooks sandbox --forward-to http://localhost:3000/hooks --drop 0.2 --seed 42']);
  return addAction(command, runSandbox);
}

async function runSandbox({
  flags,
  settings,
  printer,
  signal,
}: CommandContext<SandboxFlags>): Promise<ExitCode> {
  const { port, host, state, seed, encoding, header, listLag } = flags;
  const [token, secret] = [await settings.optional.token(), await settings.optional.secret()];
  const sandbox = createSandbox({
    token,
    secret,
    seed,
    stateFile: state,
    faults: { ...toFaults(flags), ...(listLag !== undefined && { listLagMs: listLag }) },
    endpoints: flags.forwardTo.map((url) => ({
      url: parseUrl(url, '--forward-to'),
      encoding,
      signatureHeader: header,
    })),
  });
  try {
    const { url } = await sandbox.listen(port, { hostname: host });
    sandbox.subscribe((entry) => printFeed(printer, entry));
    greet(printer, {
      url,
      seed: sandbox.seed,
      settings: {
        STABLEHOOKS_BASE_URL: url,
        // What the user has set is not printed.
        ...(token === undefined && { STABLEHOOKS_TOKEN: sandbox.token }),
        ...(secret === undefined && { STABLEHOOKS_SECRET: sandbox.secret }),
      },
    });
    if (!signal.aborted) await once(signal, 'abort');
    return EXIT.good;
  } finally {
    await sandbox.close();
  }
}

interface Greeting {
  readonly url: string;
  readonly seed: number;
  /** Environment variables for other commands. */
  readonly settings: Readonly<Record<string, string>>;
}

function greet(printer: Printer, greeting: Greeting): void {
  const { url, seed, settings } = greeting;
  const lines = Object.entries(settings).map(([name, value]) => `export ${name}=${value}`);
  const head = `The service runs at ${url} (seed ${seed}). Paste into another terminal:`;
  const text = [head, '', ...lines, '', 'Ctrl-C ends it.'].join('\n');
  printer.print({ text, data: { kind: 'sandbox.listening', ...greeting } });
}

function toFaults(flags: SandboxFlags): FaultsInput {
  const names = [...Object.keys(CHANCES), 'listOrder', 'listCap'] as (keyof FaultsInput)[];
  return Object.fromEntries(
    names.flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]])),
  );
}

function printFeed(printer: Printer, entry: FeedEntry): void {
  printer.print({ text: toPlain(toLine(entry)), data: entry });
}

function toLine({ at, kind, data }: FeedEntry): string {
  const time = at.slice(11, 23);
  if (kind === 'attempt.made') return `${time}  ${describeAttempt(data as Attempt)}`;
  const about = data as Readonly<Record<string, unknown>> | null;
  const words = ['type', 'eventId', 'id', 'kind', 'state', 'url'].map((name) => about?.[name]);
  return `${time}  ${[kind, ...words.filter((word) => typeof word === 'string')].join('  ')}`;
}

function describeAttempt({ eventId, number, request, response, error, durationMs, faults }: Attempt): string {
  const { outcome, code } = readOutcome(response?.body ?? '');
  const result =
    response === null ? (error ?? 'no answer') : [response.status, code ?? outcome].filter(Boolean).join(' ');
  const injected = faults.length > 0 ? `  [${faults.join(', ')}]` : '';
  return `attempt ${number}  ${eventId}  ${request.url}  ${result}  ${durationMs} ms${injected}`;
}

function parseWhole(value: string): number {
  if (/^\d{1,15}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('Write a whole number.');
}

function parseChance(value: string): number {
  const chance = Number(value);
  if (value.trim() !== '' && chance >= 0 && chance <= 1) return chance;
  throw new InvalidArgumentError('Write a chance as a number from 0 (never) to 1 (always).');
}
