import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { parseEnv } from 'node:util';
import { type Command, Help, InvalidArgumentError, Option } from 'commander';
import {
  createdAtMs,
  EVENT_TYPES,
  type EventType,
  isDateTime,
  SIGNATURE_ENCODINGS,
  SIGNATURE_HEADER,
  type SignatureEncoding,
} from 'stablehooks';
import type { Client } from 'stablehooks/client';
import { usageError } from './errors.js';
import {
  createPrinter,
  type ExitCode,
  formatDuration,
  interruption,
  keepConfidential,
  type Printer,
  toPlain,
} from './output.js';

export interface CommandContext<Flags> {
  readonly flags: Flags;
  readonly args: readonly string[];
  /** The flags that were typed, such as `secretFile`. All other flags have their defaults. */
  readonly given: ReadonlySet<string>;
  readonly settings: Settings;
  readonly printer: Printer;
  /** After an abort, the command must finish its current step and print its progress. */
  readonly signal: AbortSignal;
}

interface CommonFlags {
  readonly json?: boolean;
  readonly color: boolean;
}

const HELP_COLUMNS = 80;

export function addAction<Flags>(
  command: Command,
  run: (context: CommandContext<Flags>) => Promise<ExitCode>,
  example: readonly string[],
): Command {
  const toLines = (line: string) => {
    if (line.length + 2 <= HELP_COLUMNS || !line.startsWith('stablehooks ')) return `  ${line}`;
    return `  ${line.split(/ (?=--)/).join(' \\\n      ')}`;
  };
  command
    .addHelpText('after', `\nExample:\n${example.map(toLines).join('\n')}`)
    .optionsGroup('Common:')
    .option('--json', 'print JSON, one value per line')
    .option('--no-color', 'disable colours, like the environment variable NO_COLOR')
    .option(
      '--env-file <file>',
      'read environment variables from this file, such as .env; variables that are already set take precedence',
    )
    .option('--debug', 'print the stack trace of an error')
    .action(async () => {
      const flags = command.opts<Flags & SettingFlags & CommonFlags>();
      const { env, stdout, stderr } = process;
      process.exitCode = await run({
        flags,
        // A pasted id often has a space around it.
        args: command.args.map((arg) => arg.trim()),
        given: new Set(Object.keys(flags).filter((name) => command.getOptionValueSource(name) === 'cli')),
        settings: createSettings(flags, env),
        printer: createPrinter({ stdout, stderr, env, json: flags.json === true, color: flags.color }),
        signal: interruption,
      });
    });
  describeOptions(command);
  return command;
}

/** Adds which flags are required, and prints defaults in the form that flags accept. */
function describeOptions(command: Command): void {
  for (const option of command.options) {
    const { parseArg, defaultValue } = option;
    // A parsed duration is in ms, but flags accept a number with a unit.
    if (typeof defaultValue === 'number' && (parseArg === parseWait || parseArg === parseDuration))
      option.defaultValueDescription = formatDuration(defaultValue);
    if (option.mandatory && defaultValue === undefined) option.description += ' (required)';
    // `choices()` would reject a list with commas.
    if (option.long === '--type') option.argChoices ??= [...EVENT_TYPES];
  }
  command.configureHelp({
    optionDescription(option) {
      const description = new Help().optionDescription(option).replace(' (default: [])', '');
      // The service can have newer types than this release.
      return option.parseArg === collectNames || option.parseArg === undefined
        ? description.replace('(choices: ', '(known: ')
        : description;
    },
  });
  for (const argument of command.registeredArguments)
    if (argument.name() === 'type') argument.argChoices ??= [...EVENT_TYPES];
}

/** Uses the format of `node --env-file`. Variables that are already set take precedence. */
export async function loadEnvironment(path: string): Promise<void> {
  const bytes = await readInput(path, '--env-file');
  const variables = Object.entries(parseEnv(new TextDecoder().decode(bytes)));
  for (const [name, value] of variables) {
    if (process.env[name] !== undefined && process.env[name] !== value && isRead(name))
      process.stderr.write(
        `${name} in ${path} is ignored because the environment already sets a different value.\n`,
      );
    process.env[name] ??= value;
  }
  if (!variables.some(([name]) => isRead(name)))
    process.stderr.write(`${path} sets none of ${VARIABLES.join(', ')}. Check the variable names.\n`);
}

const VARIABLES = [
  ...['STABLEHOOKS_BASE_URL', 'STABLEHOOKS_TOKEN', 'STABLEHOOKS_SECRET', 'STABLEHOOKS_INBOX'],
  'DATABASE_URL',
] as const;

const isRead = (name: string) => VARIABLES.some((each) => each === name);

export function refuseFlags(given: ReadonlySet<string>, names: readonly string[], why: string): void {
  const name = names.find((each) => given.has(each));
  if (name !== undefined) throw usageError(`--${toKebab(name)} ${why}`);
}

/** For example, `secretFile` becomes `secret-file`. */
export function toKebab(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

export function addServiceFlags(command: Command): Command {
  return command
    .optionsGroup('Service:')
    .option('--base-url <url>', 'base URL of the service (environment: STABLEHOOKS_BASE_URL)')
    .option(
      '--token-file <file>',
      'file with the access token, or - for stdin (environment: STABLEHOOKS_TOKEN)',
    );
}

export function addSecretFlags(command: Command, { header = true } = {}): Command {
  command
    .optionsGroup('Signature:')
    .option(
      '--secret-file <file>',
      'file with the webhook secret, or - for stdin (environment: STABLEHOOKS_SECRET)',
    )
    .addOption(
      new Option(
        '--encoding <name>',
        'encoding of the signature (default: hex when sending, any when verifying)',
      ).choices(SIGNATURE_ENCODINGS),
    );
  if (header)
    command.option('--header <name>', `name of the signature header (default: ${SIGNATURE_HEADER})`);
  return command.option('--prefix <string>', 'text before the signature value, such as sha256=');
}

/** Each command has only the flags that it needs. */
interface SettingFlags {
  readonly baseUrl?: string;
  readonly tokenFile?: string;
  readonly secretFile?: string;
  readonly encoding?: SignatureEncoding;
  readonly header?: string;
  readonly prefix?: string;
}

/** Secrets come only from files or the environment, because the process list shows flags. */
export interface Settings {
  /** The base URL without a trailing slash. */
  baseUrl(): string;
  token(): Promise<string>;
  /** @throws {CommandError} exit 2 if the secret begins or ends with white space. */
  secret(): Promise<string>;
  /** The secret, including any white space around it. */
  rawSecret(): Promise<string>;
  /** For commands that do not require these settings. */
  readonly optional: {
    token(): Promise<string | undefined>;
    secret(): Promise<string | undefined>;
  };
  readonly signature: {
    readonly header: string;
    readonly encoding: SignatureEncoding | undefined;
    readonly prefix: string;
  };
  /** Retries less than by default, because a person is waiting. */
  client(): Promise<Client>;
}

/** The value of this setting must not be passed as a flag. */
interface HiddenSetting {
  readonly what: string;
  readonly variable: string;
  readonly flag: string;
}

const TOKEN: HiddenSetting = { what: 'access token', variable: 'STABLEHOOKS_TOKEN', flag: '--token-file' };
const SECRET: HiddenSetting = {
  what: 'webhook secret',
  variable: 'STABLEHOOKS_SECRET',
  flag: '--secret-file',
};

function createSettings(flags: SettingFlags, env: Readonly<Record<string, string | undefined>>): Settings {
  /** Reads the setting only once, because standard input cannot be read twice. */
  function reader(
    { variable, flag }: HiddenSetting,
    path: string | undefined,
  ): () => Promise<string | undefined> {
    let read: Promise<string | undefined> | undefined;
    return () => {
      read ??= (async () => {
        const value = path === undefined ? env[variable] || undefined : await readHidden(path, flag);
        if (value !== undefined) keepConfidential(value);
        return value;
      })();
      return read;
    };
  }

  const readSecret = reader(SECRET, flags.secretFile);
  const optional = {
    token: reader(TOKEN, flags.tokenFile),
    secret: async () => {
      const secret = await readSecret();
      if (secret === secret?.trim()) return secret;
      const { secretFile } = flags;
      const source = secretFile === undefined ? SECRET.variable : `${SECRET.flag} ${secretFile}`;
      throw usageError(
        `${source}: the webhook secret begins or ends with white space, such as a newline. Remove it.`,
      );
    },
  };

  const settings: Settings = {
    baseUrl() {
      const url = flags.baseUrl ?? env['STABLEHOOKS_BASE_URL'];
      if (url) {
        const name = flags.baseUrl ? '--base-url' : 'STABLEHOOKS_BASE_URL';
        return parseUrl(url, name).replace(/\/+$/, '');
      }
      throw usageError(
        url === ''
          ? 'STABLEHOOKS_BASE_URL is empty. Set it, or pass --base-url URL.'
          : 'The base URL of the service is missing. Set STABLEHOOKS_BASE_URL, or pass --base-url URL.',
      );
    },
    async token() {
      const token = present(await optional.token(), TOKEN);
      // `fetch` rejects all other characters in a header, and its error would quote the token.
      if (!/[^\x21-\x7e]/.test(token)) return token;
      throw usageError(
        'The access token contains a space, a line break or a character that is not allowed in a header. Check that you pasted it correctly.',
      );
    },
    secret: async () => present(await optional.secret(), SECRET),
    rawSecret: async () => present(await readSecret(), SECRET),
    optional,
    signature: {
      header: matching(
        flags.header ?? SIGNATURE_HEADER,
        // A token as defined in RFC 9110, section 5.6.2.
        /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/,
        `--header must be a valid header name, such as ${SIGNATURE_HEADER}.`,
      ),
      encoding: flags.encoding,
      prefix: matching(
        flags.prefix ?? '',
        /^[\x20-\x7e]*$/,
        '--prefix must contain only ASCII characters, such as sha256=.',
      ),
    },
    async client() {
      const [baseUrl, token] = [settings.baseUrl(), await settings.token()];
      // Loading the client takes as long as the rest of a short command.
      const { createClient } = await import('stablehooks/client');
      return createClient({ baseUrl, token, retries: 2, baseWaitMs: 200, maxWaitMs: 5_000 });
    },
  };
  return settings;
}

async function readHidden(path: string, flag: string): Promise<string> {
  const bytes = await readInput(path, flag);
  let content: string;
  try {
    // Without `fatal`, a replacement character would silently produce a different secret.
    content = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw usageError(`${flag} ${path}: the file is not UTF-8. Save it as UTF-8.`);
  }
  // Editors and `echo` end a file with a newline.
  const value = content.replace(/\r?\n$/, '');
  if (value === '') throw usageError(`${flag} ${path}: the file is empty.`);
  return value;
}

function present(value: string | undefined, { what, variable, flag }: HiddenSetting): string {
  if (value !== undefined) return value;
  if (process.env[variable] === '') throw usageError(`${variable} is empty. Set it, or pass ${flag} FILE.`);
  throw usageError(`The ${what} is missing. Set ${variable}, or pass ${flag} FILE.`);
}

function matching(value: string, pattern: RegExp, message: string): string {
  if (pattern.test(value)) return value;
  throw usageError(message);
}

/** Rejects credentials, because URLs are printed and stored. */
export function parseUrl(value: string, name: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url !== undefined && url.username + url.password !== '') {
    throw usageError(
      `${name} contains a user name or password, which would be printed. Pass the URL without them.`,
    );
  }
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return value;
  throw usageError(`${name} must be a URL such as http://localhost:3000/hooks.`);
}

export function parseEndpoint(value: string): string {
  return parseUrl(withScheme(value), '--to');
}

/** For example, `3000` becomes `http://localhost:3000`. */
export function withScheme(value: string): string {
  return (
    value
      .replace(/^:?(\d+)(?=$|\/)/, 'localhost:$1')
      // A host has a dot or a port, or is the name of this machine. Anything else is a mistake.
      .replace(
        /^(?=(?:localhost|\[[\da-f:]+\]|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d))(?::\d+)?(?:[/?]|$))/i,
        'http://',
      )
  );
}

/** Standard input can be read only once. */
let stdinFlag: string | undefined;

export function claimStdin(flag: string): void {
  if (stdinFlag !== undefined)
    throw usageError(`${flag} -: standard input is already used for ${stdinFlag}. Pass a file instead.`);
  stdinFlag = flag;
}

export async function readInput(path: string, flag: string): Promise<Uint8Array> {
  if (path === '-') claimStdin(flag);
  try {
    return await (path === '-' ? buffer(process.stdin) : readFile(path));
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    throw usageError(`${flag} ${path}: ${FILE_ERRORS[String(code)] ?? 'the file cannot be read'}.`, {
      cause,
    });
  }
}

const FILE_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'the file does not exist; check the path',
  EISDIR: 'this is a folder, not a file',
  EACCES: 'you do not have permission to read it',
};

/** Errors never quote the content of the file. */
export async function readPayload(path: string): Promise<Record<string, unknown>> {
  const bytes = await readInput(path, '--payload');
  let text = '';
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    throw usageError(`--payload ${path}: the file is not valid JSON. Check it with \`jq . ${path}\`.`);
  }
  refuseRounding(text, `--payload ${path}`);
  if (!isObject(value)) throw usageError(`--payload ${path}: a payload must be a JSON object.`);
  return value;
}

/** Rejects numbers that JavaScript would send with different digits. */
export function refuseRounding(json: string, name: string): void {
  const digits = (number: string) => number.replace(/e.*/i, '').replaceAll(/[-.]|^[0.]+|[0.]+$/g, '');
  const numbers = json.replaceAll(/"(?:\\.|[^"\\])*"/gs, '').match(/[\d.eE+-]*\d/g) ?? [];
  const rounded = numbers.find((number) => digits(number) !== digits(String(Number(number))));
  if (rounded === undefined) return;
  throw usageError(
    `${name}: the number ${rounded.slice(0, 40)} would be sent as ${Number(rounded)}. Write it as a string.`,
  );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

export function collectNames(value: string, before: readonly string[] = []): readonly string[] {
  const names = value.split(',').map((name) => name.trim());
  if (names.includes(''))
    throw new InvalidArgumentError('Pass a name, or several names separated by commas.');
  return [...before, ...names];
}

/** Accepts 0, for example as a port. */
export function parseWhole(value: string): number {
  if (/^\d{1,15}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('Pass a whole number.');
}

export function parseCount(value: string): number {
  if (/^[1-9]\d{0,9}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('Pass a whole number of 1 or more.');
}

export function parseText(length: number): (value: string) => string {
  return (value) => {
    if (value.trim() !== '' && value.length <= length) return value;
    throw new InvalidArgumentError(`Pass 1 to ${length} characters.`);
  };
}

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** Returns ms. Only `0` needs no unit. */
export function parseDuration(value: string): number {
  if (value === '0') return 0;
  const [, digits, unit] = DURATION.exec(value) ?? [];
  const ms = Number(digits) * (UNIT_MS[unit as keyof typeof UNIT_MS] ?? Number.NaN);
  if (Number.isFinite(ms)) return Math.round(ms);
  throw new InvalidArgumentError('Pass a duration as a number and a unit, such as 500ms, 2s, 5m, 1h or 7d.');
}

/** A timer accepts up to 2³¹ − 1 ms, which must leave room for the time limits that are added to this one. */
const MAX_WAIT_MS = 24 * UNIT_MS.d;

export function parseWait(value: string): number {
  const ms = parseDuration(value);
  if (ms >= 1 && ms <= MAX_WAIT_MS) return ms;
  throw new InvalidArgumentError('Pass a duration from 1ms to 24d.');
}

/** A point in time as typed: a date, or a duration before now. */
export type Moment = { readonly at: Date } | { readonly agoMs: number };

/** A date without a time means 00:00 UTC. */
export function parseMoment(value: string): Moment {
  if (DURATION.test(value)) return { agoMs: parseDuration(value) };
  const [time] = [value, `${value}T00:00:00Z`].filter(isDateTime);
  if (time !== undefined) return { at: new Date(createdAtMs({ created_at: time })) };
  throw new InvalidArgumentError(
    'Pass a time with an offset (2026-01-31T12:00:00Z), a date in UTC (2026-01-31) or an age (30m, 2h, 7d).',
  );
}

/** Dates have a lower limit, so a moment before 1970 becomes the start of 1970. */
export function toDate(moment: Moment, now: number): Date {
  return 'at' in moment ? moment.at : new Date(Math.max(0, now - moment.agoMs));
}

export function parseEventType(value: string): EventType {
  const known = EVENT_TYPES.find((type) => type === value);
  if (known !== undefined) return known;
  throw usageError(`The event type ${toPlain(value)} is unknown. ${knownTypes()}`);
}

export function knownTypes(): string {
  return `The known types are ${EVENT_TYPES.join(', ')}.`;
}

export function collectTypes(value: string, before: readonly EventType[] = []): readonly EventType[] {
  return [...before, ...value.split(',').map((type) => parseEventType(type.trim()))];
}
