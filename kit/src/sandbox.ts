/** `stablehooks sandbox`: the service on this machine, and a line for all that happens in it. */
import { once } from 'node:events';
import { Command, Option } from 'commander';
import { SIGNATURE_ENCODINGS, type SignatureEncoding } from 'stablehooks';
import { parseDuration } from './duration.js';
import { EXIT, type ExitCode } from './exit.js';
import { printFeed } from './feed-line.js';
import { collect, parseChance, parseCount, parseWhole } from './flag-value.js';
import type { Printer } from './printer.js';
import type { Faults } from './sandbox/index.js';
import { createSandbox } from './sandbox/index.js';
import { parseUrl } from './settings.js';
import { addExample, type Task, toAction } from './task.js';

interface SandboxFlags extends Partial<Faults> {
  readonly port: number;
  readonly host: string;
  readonly forwardTo: readonly string[];
  readonly state?: string;
  readonly seed?: number;
  readonly encoding: SignatureEncoding;
  readonly header?: string;
  readonly listLag?: number;
}

/** Faults that strike by chance, each a flag. */
const CHANCES = {
  drop: 'attempts that never arrive',
  duplicate: 'attempts that arrive twice',
  reorder: 'events that later ones overtake',
  delay: 'events that come late',
  corruptSignature: 'attempts with a wrong signature',
  reserialise: 'bodies that are written again after signing',
  cut: 'attempts cut off halfway',
  apiTooManyRequests: 'requests answered 429',
  apiServerError: 'requests answered 500',
  apiSlow: 'requests answered late',
  apiMalformed: 'requests answered with half of the JSON',
  listWrongDelivered: 'listed events whose delivered is a lie',
} as const satisfies Partial<Record<keyof Faults, string>>;

/** The command. */
export function sandboxCommand(): Command {
  const command = new Command('sandbox')
    .option('--port <number>', 'port to listen on, 0 for any', parseWhole, 4010)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--forward-to <url>', 'where events are delivered; may be given again', collect, [])
    .option('--token-file <file>', 'file of the token to ask for (environment: STABLEHOOKS_TOKEN)')
    .option('--secret-file <file>', 'file of the secret to sign with (environment: STABLEHOOKS_SECRET)')
    .option('--state <file>', 'JSON file that the state is kept in (default: memory only)')
    .option('--seed <number>', 'the same seed gives the same run again', parseWhole)
    .addOption(
      new Option('--encoding <name>', 'how deliveries are signed')
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
    .option('--list-cap <number>', 'the list answers no more than this', parseCount)
    .option('--list-lag <duration>', 'events are listed so long after they were created', parseDuration);
  addExample(command, ['stablehooks sandbox --forward-to http://localhost:3000/hooks --drop 0.2 --seed 42']);
  return toAction(command, run);
}

async function run({ flags, settings, printer, signal }: Task<SandboxFlags>): Promise<ExitCode> {
  const { port, host, state, seed, encoding, header, listLag } = flags;
  const [token, secret] = [await settings.given.token(), await settings.given.secret()];
  const sandbox = createSandbox({
    token,
    secret,
    seed,
    stateFile: state,
    faults: { ...toFaults(flags), ...(listLag !== undefined && { listLagMs: listLag }) },
    endpoints: flags.forwardTo.map((url) => ({
      url: parseUrl(url, { name: '--forward-to' }),
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
        // What was given is there already, and is not shown.
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
  /** What to paste. */
  readonly settings: Readonly<Record<string, string>>;
}

function greet(printer: Printer, greeting: Greeting): void {
  const { url, seed, settings } = greeting;
  const lines = Object.entries(settings).map(([name, value]) => `export ${name}=${value}`);
  const head = `The service runs at ${url} (seed ${seed}). Paste into another terminal:`;
  const text = [head, '', ...lines, '', 'Ctrl-C ends it.'].join('\n');
  printer.print({ text, data: { kind: 'sandbox.listening', ...greeting } });
}

function toFaults(flags: SandboxFlags): Partial<Faults> {
  const names = [...Object.keys(CHANCES), 'listOrder', 'listCap'] as (keyof Faults)[];
  return Object.fromEntries(
    names.flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]])),
  );
}

function toKebab(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
