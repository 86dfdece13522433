import { once } from 'node:events';
import { Command, InvalidArgumentError, Option } from 'commander';
import { SIGNATURE_ENCODINGS, SIGNATURE_HEADER, type SignatureEncoding } from 'stablehooks';
import { createLocalInspector } from '../inspector/local-server.js';
import { fromSandbox } from '../inspector/sandbox-source.js';
import { formatClock, interruptedExit, type Printer, toPlain } from '../io/output.js';
import { nameEndpoint } from '../io/place.js';
import {
  addAction,
  type CommandContext,
  collect,
  parseCount,
  parseDuration,
  parseEndpoint,
  parseWait,
  parseWhole,
  refuseFlags,
  toKebab,
} from '../io/settings.js';
import { isLoopback } from '../other-sites.js';
import {
  type Attempt,
  createSandbox,
  type Endpoint,
  type FaultsInput,
  type FeedEntry,
} from '../sandbox/index.js';
import { DEFAULT_TOKEN, readSandboxOptions } from '../sandbox/options.js';
import { hostName } from '../sandbox/server.js';
import { decimal } from '../sandbox/validation.js';
import { toShellWord } from '../shell-word.js';

interface SandboxFlags extends Omit<FaultsInput, `${string}Ms`> {
  readonly port: number;
  readonly host: string;
  readonly allowHost: readonly string[];
  readonly to: readonly string[];
  readonly seed?: number;
  readonly encoding: SignatureEncoding;
  readonly header?: string;
  readonly maxAttempts: number;
  readonly retryBase: number;
  readonly timeout: number;
  readonly movementTime: number;
  readonly balance: string;
  readonly listLag?: number;
  readonly dateSkew?: number;
  readonly tokenExpiry?: number;
}

type ChanceFlags = Readonly<Partial<Record<keyof FaultsInput, string>>>;

const CHANCES = {
  deliveries: {
    drop: 'an attempt never arrives',
    duplicate: 'an attempt arrives twice',
    reorder: 'an event arrives after later events',
    delay: 'an event arrives late',
    corruptSignature: 'an attempt has a wrong signature',
    reserialise: 'a body is reserialized after signing',
    cut: 'an attempt is cut off halfway',
    reset: 'an attempt arrives, but the connection is reset before the response',
  },
  api: {
    apiTooManyRequests: 'a request gets a 429',
    apiServerError: 'a request gets a 500',
    apiSlow: 'a request gets a late response',
    apiMalformed: 'a response contains only half of the JSON',
    apiReset: 'a request takes effect, but the connection is reset before the response',
  },
  list: {
    listDuplicate: 'an event is listed twice',
    listWrongDelivered: 'an event is listed with a wrong delivered flag',
  },
} as const satisfies Readonly<Record<string, ChanceFlags>>;

const DEFAULTS = readSandboxOptions({});

export function sandboxCommand(): Command {
  const command = new Command('sandbox')
    .option('--to <url>', 'endpoint to deliver events to; can be repeated', collect, [])
    .option('--port <number>', 'local port to listen on; 0 picks any free port', parseWhole, 4010)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option(
      '--allow-host <name>',
      'host name that other machines or containers use for the sandbox; can be repeated',
      collectHosts,
      [],
    )
    .option(
      '--token-file <file>',
      'file with the token that requests must include (environment: STABLEHOOKS_TOKEN)',
    )
    .option('--secret-file <file>', 'file with the secret to sign with (environment: STABLEHOOKS_SECRET)')
    .option('--seed <number>', 'repeat the ids and faults of an earlier run that used this seed', parseWhole);
  command
    .optionsGroup('Deliveries:')
    .addOption(
      new Option('--encoding <name>', 'encoding of the signature')
        .choices(SIGNATURE_ENCODINGS)
        .default('hex'),
    )
    .option('--header <name>', `name of the signature header (default: ${SIGNATURE_HEADER})`)
    .option(
      '--timeout <duration>',
      'how long to wait for an endpoint to respond',
      parseWait,
      DEFAULTS.timeoutMs,
    )
    .option(
      '--max-attempts <number>',
      'maximum number of attempts per delivery; 1 disables retries',
      parseCount,
      DEFAULTS.maxAttempts,
    )
    .option(
      '--retry-base <duration>',
      'delay before the first retry; each further retry doubles the delay',
      parseWait,
      DEFAULTS.retryBaseMs,
    );
  command
    .optionsGroup('Movements:')
    .option(
      '--movement-time <duration>',
      'how long a movement stays pending',
      parseDuration,
      DEFAULTS.movementMs,
    )
    .option(
      '--balance <amount>',
      'initial balance of each new wallet, in USDC',
      parseBalance,
      DEFAULTS.initialBalance,
    );
  addChances(command.optionsGroup('Delivery faults:'), CHANCES.deliveries);
  addChances(command.optionsGroup('API faults:'), CHANCES.api)
    .option(
      '--token-expiry <duration>',
      'how long the token stays valid before it must be renewed',
      parseDuration,
    )
    .option('--date-skew <duration>', 'how far the Date header is off, such as 5m or -5m', parseSkew);
  addChances(command.optionsGroup('List faults:'), CHANCES.list)
    .addOption(
      new Option('--list-order <order>', 'order of the events in the list').choices([
        'newest',
        'oldest',
        'shuffled',
      ]),
    )
    .option('--list-cap <number>', 'maximum number of events in one list response', parseCount)
    .option('--list-filter-after-cap', 'filter by type only after the list is truncated to its limit')
    .option('--list-lag <duration>', 'how long a new event takes to appear in the event list', parseDuration);
  return addAction(command.optionsGroup('Options:'), runSandbox, [
    'stablehooks sandbox --to http://localhost:3000/hooks --drop 0.2',
  ]);
}

function addChances(command: Command, chances: ChanceFlags): Command {
  for (const [fault, what] of Object.entries(chances)) {
    command.option(`--${toKebab(fault)} <chance>`, `probability (0 to 1) that ${what}`, parseChance);
  }
  return command;
}

async function runSandbox({ flags, given, settings, printer, signal }: CommandContext<SandboxFlags>) {
  const { port, host, allowHost, to, seed, encoding, header } = flags;
  if (to.length === 0) refuseFlags(given, ['encoding', 'header'], 'has no effect without --to.');
  const [token, secret] = [await settings.optional.token(), await settings.optional.secret()];
  const sandbox = createSandbox({
    token,
    secret,
    seed,
    faults: toFaults(flags),
    timeoutMs: flags.timeout,
    maxAttempts: flags.maxAttempts,
    retryBaseMs: flags.retryBase,
    retryMaxMs: Math.max(DEFAULTS.retryMaxMs, flags.retryBase),
    movementMs: flags.movementTime,
    initialBalance: flags.balance,
    endpoints: to.map((url) => ({ url: parseEndpoint(url), encoding, signatureHeader: header })),
  });
  // The inspector accepts requests only from this machine, so the sandbox must be reachable at 127.0.0.1.
  const isReached = isLoopback(host) || ['0.0.0.0', '::'].includes(host);
  const inspector = isReached ? createLocalInspector(fromSandbox(sandbox)) : undefined;
  try {
    const { url } = await sandbox.listen(port, {
      hostname: host,
      allowedHosts: allowHost,
      page: inspector?.fetch,
    });
    const endpoints = sandbox.endpoints.list().map((endpoint) => ({ url: nameEndpoint(endpoint.url) }));
    sandbox.subscribe((entry) => printFeed(printer, entry, sandbox.endpoints.list().length > 1));
    if (!isLoopback(host) && sandbox.token === DEFAULT_TOKEN) {
      printer.note(
        `Warning: every machine that can reach ${host} can use this sandbox, because it has the default token. Set STABLEHOOKS_TOKEN, or pass --token-file FILE.`,
      );
    }
    if (seed !== undefined) {
      printer.note(
        `With --seed, event ids repeat from run to run, so an app that has already seen them responds with "duplicate". Omit --seed to get new ids.`,
      );
    }
    const greeting = {
      url,
      inspector: inspector?.urlAt(url),
      endpoints,
      seed: sandbox.seed,
      settings: {
        STABLEHOOKS_BASE_URL: url,
        // Generated values are printed, but values that the user set are not.
        ...(token === undefined && { STABLEHOOKS_TOKEN: sandbox.token }),
        ...(secret === undefined && { STABLEHOOKS_SECRET: sandbox.secret }),
      },
    };
    greet(printer, greeting);
    if (!signal.aborted) await once(signal, 'abort');
    return interruptedExit();
  } finally {
    inspector?.close();
    await sandbox.close();
  }
}

interface Greeting {
  readonly url: string;
  /** Contains the inspector's token. */
  readonly inspector: string | undefined;
  readonly endpoints: readonly { readonly url: string }[];
  readonly seed: number;
  /** Environment variables for other commands. */
  readonly settings: Readonly<Record<string, string>>;
}

function greet(printer: Printer, greeting: Greeting): void {
  const { url, inspector, endpoints, seed, settings } = greeting;
  const text = [
    `The service is running at ${url}`,
    // The URL nearly fills a line, so it gets its own line.
    ...(inspector === undefined
      ? ['The inspector is off: it needs a --host that this machine can reach as 127.0.0.1.']
      : ['The inspector shows every delivery and why it failed:', inspector]),
    ...(endpoints.length > 0
      ? endpoints.map((endpoint) => `Events go to ${toPlain(endpoint.url)}`)
      : ['Events are listed but not delivered, because --to is missing.']),
    'Save this as .env, or paste it into another terminal:',
    '',
    ...Object.entries(settings).map(([name, value]) => ({ whole: `export ${name}=${toShellWord(value)}` })),
    '',
    `Press Ctrl-C to stop. --seed ${seed} repeats this run with the same ids.`,
  ];
  printer.print({ text, data: { kind: 'sandbox.listening', ...greeting } });
}

function toFaults({ listLag, dateSkew, tokenExpiry, ...flags }: SandboxFlags): FaultsInput {
  const names = [
    ...Object.values(CHANCES).flatMap((chances) => Object.keys(chances)),
    ...['listOrder', 'listCap', 'listFilterAfterCap'],
  ] as (keyof typeof flags & keyof FaultsInput)[];
  return {
    ...Object.fromEntries(names.map((name) => [name, flags[name]])),
    ...{ listLagMs: listLag, dateSkewMs: dateSkew, tokenExpiryMs: tokenExpiry },
  };
}

function printFeed(printer: Printer, published: FeedEntry, namesEndpoint: boolean): void {
  const entry = withoutQueries(published);
  // The entry for the attempt already reports the delivery.
  if (entry.kind === 'delivery.delivered' && !printer.json) return;
  const text = toPlain([formatClock(new Date(entry.at)), ...toWords(entry, namesEndpoint)].join('  '));
  printer.print({ text: { whole: text }, data: entry });
}

/** The query of an endpoint URL can contain a token. */
function withoutQueries(entry: FeedEntry): FeedEntry {
  const hide = <Named extends { readonly url: string }>(named: Named) => ({
    ...named,
    url: nameEndpoint(named.url),
  });
  const { kind, data } = entry;
  if (kind === 'attempt.made') {
    const attempt = data as Attempt;
    return { ...entry, data: { ...attempt, request: hide(attempt.request) } };
  }
  const isEndpoint = kind === 'endpoint.added' || kind === 'endpoint.secret_rotated';
  return isEndpoint ? { ...entry, data: hide(data as Endpoint) } : entry;
}

function toWords({ kind, data }: FeedEntry, namesEndpoint: boolean): readonly string[] {
  if (kind === 'attempt.made') return describeAttempt(data as Attempt, namesEndpoint);
  const about = data as Readonly<Record<string, unknown>> | null;
  const named = FEED_FIELDS.find((names) => names.some((name) => typeof about?.[name] === 'string')) ?? [];
  const words = named.map((name) => about?.[name]).filter((word) => typeof word === 'string');
  return [kind, ...words];
}

/** Each entry is printed with the fields of the first matching group. */
const FEED_FIELDS = [['eventId'], ['url'], ['type', 'id'], ['id', 'state']] as const;

function describeAttempt(
  { eventId, number, request, response, error, durationMs, faults }: Attempt,
  namesEndpoint: boolean,
): readonly string[] {
  const { outcome, code } = response?.report ?? {};
  const result =
    response === null ? 'no response' : [response.status, code ?? outcome].filter(Boolean).join(' ');
  return [
    ...[`attempt ${number}`, eventId, result, `${durationMs} ms`],
    ...(namesEndpoint ? [request.url] : []),
    ...(faults.length > 0 ? [`faults: ${faults.join(', ')}`] : []),
    ...(error === null ? [] : [error.replaceAll(/\s+/g, ' ')]),
  ];
}

function parseChance(value: string): number {
  const chance = Number(value);
  if (value.trim() !== '' && chance >= 0 && chance <= 1) return chance;
  throw new InvalidArgumentError('Pass a probability from 0 (never) to 1 (always).');
}

function collectHosts(value: string, before: readonly string[]): readonly string[] {
  if (hostName.safeParse(value).success) return [...before, value];
  throw new InvalidArgumentError('Pass a host name without a scheme or port, such as sandbox.');
}

function parseSkew(value: string): number {
  const skew = parseDuration(value.replace(/^[+-]/, ''));
  return value.startsWith('-') ? -skew : skew;
}

function parseBalance(value: string): string {
  if (decimal.safeParse(value).success) return value;
  throw new InvalidArgumentError('Pass a decimal amount of zero or more, such as 10.50.');
}
