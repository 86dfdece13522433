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

/** The chances of FaultsInput, each a flag. */
const CHANCES = {
  deliveries: {
    drop: 'attempts that never arrive',
    duplicate: 'attempts that arrive twice',
    reorder: 'events that later events overtake',
    delay: 'events that arrive late',
    corruptSignature: 'attempts with a wrong signature',
    reserialise: 'bodies that are serialized again after signing',
    cut: 'attempts cut off halfway',
    reset: 'attempts that arrive and are reset before the answer',
  },
  api: {
    apiTooManyRequests: 'requests that get a 429',
    apiServerError: 'requests that get a 500',
    apiSlow: 'requests with a late answer',
    apiMalformed: 'requests that get half of the JSON',
    apiReset: 'requests that take effect and are reset before the answer',
  },
  list: {
    listDuplicate: 'events that are listed twice',
    listWrongDelivered: 'listed events whose delivered flag is wrong',
  },
} as const satisfies Readonly<Record<string, ChanceFlags>>;

const DEFAULTS = readSandboxOptions({});

export function sandboxCommand(): Command {
  const command = new Command('sandbox')
    .option('--to <url>', 'endpoint that events are delivered to; can be repeated', collect, [])
    .option('--port <number>', 'port to listen on, 0 for any', parseWhole, 4010)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option(
      '--allow-host <name>',
      'name that other machines or containers use for it; can be repeated',
      collectHosts,
      [],
    )
    .option(
      '--token-file <file>',
      'file with the token that requests must have (environment: STABLEHOOKS_TOKEN)',
    )
    .option('--secret-file <file>', 'file with the secret to sign with (environment: STABLEHOOKS_SECRET)')
    .option('--seed <number>', 'repeats the ids and faults of the run with this seed', parseWhole);
  command
    .optionsGroup('Deliveries:')
    .addOption(
      new Option('--encoding <name>', 'encoding of the signatures')
        .choices(SIGNATURE_ENCODINGS)
        .default('hex'),
    )
    .option('--header <name>', `header of the signature (default: ${SIGNATURE_HEADER})`)
    .option('--timeout <duration>', 'how long an endpoint has to answer', parseWait, DEFAULTS.timeoutMs)
    .option(
      '--max-attempts <number>',
      'attempts of each delivery; 1 never retries',
      parseCount,
      DEFAULTS.maxAttempts,
    )
    .option(
      '--retry-base <duration>',
      'the first wait between attempts, which then doubles',
      parseWait,
      DEFAULTS.retryBaseMs,
    );
  command
    .optionsGroup('Movements:')
    .option(
      '--movement-time <duration>',
      'how long a movement is pending',
      parseDuration,
      DEFAULTS.movementMs,
    )
    .option(
      '--balance <amount>',
      'balance of each new wallet, in USDC',
      parseBalance,
      DEFAULTS.initialBalance,
    );
  addChances(command.optionsGroup('Faults of deliveries:'), CHANCES.deliveries);
  addChances(command.optionsGroup('Faults of the API:'), CHANCES.api)
    .option('--token-expiry <duration>', 'how long the token is valid, until it is renewed', parseDuration)
    .option('--date-skew <duration>', 'how far the Date header is off, such as 5m or -5m', parseSkew);
  addChances(command.optionsGroup('Faults of the list:'), CHANCES.list)
    .addOption(
      new Option('--list-order <order>', 'order of the list').choices(['newest', 'oldest', 'shuffled']),
    )
    .option('--list-cap <number>', 'maximum number of events in an answer of the list', parseCount)
    .option('--list-filter-after-cap', 'filter by type after the list was cut to its limit')
    .option('--list-lag <duration>', 'how long after its creation an event is listed', parseDuration);
  return addAction(command.optionsGroup('Options:'), runSandbox, [
    'stablehooks sandbox --to http://localhost:3000/hooks --drop 0.2',
  ]);
}

function addChances(command: Command, chances: ChanceFlags): Command {
  for (const [fault, what] of Object.entries(chances)) {
    command.option(`--${toKebab(fault)} <chance>`, `chance, from 0 to 1, of ${what}`, parseChance);
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
  // The inspector is for this machine only, which reaches no other address.
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
        `Warning: every machine that reaches ${host} can use this sandbox, because its token is the default one. Set STABLEHOOKS_TOKEN, or pass --token-file FILE.`,
      );
    }
    if (seed !== undefined) {
      printer.note(
        `With --seed, the ids of events repeat from run to run: an app that kept running answers "duplicate". Leave --seed out for new ids.`,
      );
    }
    const greeting = {
      url,
      inspector: inspector?.urlAt(url),
      endpoints,
      seed: sandbox.seed,
      settings: {
        STABLEHOOKS_BASE_URL: url,
        // Only generated values are printed, not those of the user.
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
  /** The URL of the inspector, with its token. */
  readonly inspector: string | undefined;
  readonly endpoints: readonly { readonly url: string }[];
  readonly seed: number;
  /** Environment variables for other commands. */
  readonly settings: Readonly<Record<string, string>>;
}

function greet(printer: Printer, greeting: Greeting): void {
  const { url, inspector, endpoints, seed, settings } = greeting;
  const text = [
    `The service runs at ${url}`,
    // On its own line, which the URL nearly fills.
    ...(inspector === undefined
      ? ['The inspector needs a --host that this machine reaches as 127.0.0.1.']
      : ['The inspector shows every delivery, and why it failed:', inspector]),
    ...(endpoints.length > 0
      ? endpoints.map((endpoint) => `Events go to ${toPlain(endpoint.url)}`)
      : ['Events go to no endpoint, because --to is missing. They are only listed.']),
    'Save as .env, or paste into another terminal:',
    '',
    ...Object.entries(settings).map(([name, value]) => ({ whole: `export ${name}=${toShellWord(value)}` })),
    '',
    `Ctrl-C ends it. --seed ${seed} repeats it with the same ids.`,
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

/** @param namesEndpoint - whether a row must name its endpoint, because there are several. */
function printFeed(printer: Printer, published: FeedEntry, namesEndpoint: boolean): void {
  const entry = withoutQueries(published);
  // The attempt before it says the same.
  if (entry.kind === 'delivery.delivered' && !printer.json) return;
  const text = toPlain([formatClock(new Date(entry.at)), ...toWords(entry, namesEndpoint)].join('  '));
  printer.print({ text: { whole: text }, data: entry });
}

/** The entry without the queries of endpoint URLs, which may contain tokens. */
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

/** The printed fields of an entry: the first of these groups that it has. */
const FEED_FIELDS = [['eventId'], ['url'], ['type', 'id'], ['id', 'state']] as const;

function describeAttempt(
  { eventId, number, request, response, error, durationMs, faults }: Attempt,
  namesEndpoint: boolean,
): readonly string[] {
  const { outcome, code } = response?.report ?? {};
  const result =
    response === null ? 'no answer' : [response.status, code ?? outcome].filter(Boolean).join(' ');
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
  throw new InvalidArgumentError('Write a chance as a number from 0 (never) to 1 (always).');
}

function collectHosts(value: string, before: readonly string[]): readonly string[] {
  if (hostName.safeParse(value).success) return [...before, value];
  throw new InvalidArgumentError('Write a host name without scheme and port, such as sandbox.');
}

function parseSkew(value: string): number {
  const skew = parseDuration(value.replace(/^[+-]/, ''));
  return value.startsWith('-') ? -skew : skew;
}

function parseBalance(value: string): string {
  if (decimal.safeParse(value).success) return value;
  throw new InvalidArgumentError('Write a decimal amount of zero or more, such as 10.50.');
}
