/** `stablehooks sandbox`: the service on this machine, and a line for all that happens in it. */
import { once } from 'node:events';
import { Command, Option } from 'commander';
import { createSandbox } from '../sandbox/create-sandbox.js';
import type { Faults } from '../sandbox/faults.js';
import type { Sandbox } from '../sandbox/sandbox.js';
import { parseDuration } from './duration.js';
import { EXIT, type ExitCode } from './failure.js';
import { printFeed } from './feed-line.js';
import { collect, parseChance, parseWhole } from './flag-value.js';
import type { Printer } from './printer.js';
import { parseUrl } from './settings.js';
import { addExample, type Task, toAction } from './task.js';

interface SandboxFlags extends Partial<Faults> {
  readonly port: number;
  readonly host: string;
  readonly forwardTo: readonly string[];
  readonly state?: string;
  readonly seed?: number;
  readonly encoding: 'hex' | 'base64' | 'base64url';
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
  listLie: 'listed events whose delivered is a lie',
} as const satisfies Partial<Record<keyof Faults, string>>;

/** The command. */
export function sandboxCommand(): Command {
  const command = new Command('sandbox')
    .option('--port <number>', 'port to listen on, 0 for any', parseWhole, 4010)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--forward-to <url>', 'where events are delivered; may be given again', collect, [])
    .option('--state <file>', 'JSON file that the state is kept in (default: memory only)')
    .option('--seed <number>', 'the same seed gives the same run again', parseWhole)
    .addOption(
      new Option('--encoding <name>', 'how deliveries are signed')
        .choices(['hex', 'base64', 'base64url'])
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
    .option('--list-cap <number>', 'the list answers no more than this', parseWhole)
    .option('--list-lag <duration>', 'events are listed so long after they were created', parseDuration);
  addExample(command, ['stablehooks sandbox --forward-to http://localhost:3000/hooks --drop 0.2 --seed 42']);
  return toAction(command, run);
}

async function run({ flags, printer, signal }: Task<SandboxFlags>): Promise<ExitCode> {
  const { env } = process;
  const { port, host, state, seed, encoding, header, listLag } = flags;
  const sandbox = createSandbox({
    token: env['STABLEHOOKS_TOKEN'] || undefined,
    secret: env['STABLEHOOKS_SECRET'] || undefined,
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
    greet(printer, { url, sandbox });
    if (!signal.aborted) await once(signal, 'abort');
    return EXIT.good;
  } finally {
    await sandbox.close();
  }
}

/** What to paste; what came from the environment is there already, and is not shown. */
function greet(
  printer: Printer,
  { url, sandbox }: { readonly url: string; readonly sandbox: Sandbox },
): void {
  const { seed, token, secret } = sandbox;
  const own = (name: string, value: string) => (process.env[name] ? {} : { [name]: value });
  const settings = {
    STABLEHOOKS_BASE_URL: url,
    ...own('STABLEHOOKS_TOKEN', token),
    ...own('STABLEHOOKS_SECRET', secret),
  };
  const lines = Object.entries(settings).map(([name, value]) => `export ${name}=${value}`);
  const text = [
    `The service runs at ${url} (seed ${seed}). Paste into another terminal:`,
    '',
    ...lines,
    '',
    'Ctrl-C ends it.',
  ];
  printer.print({ text: text.join('\n'), data: { kind: 'sandbox.listening', url, seed, settings } });
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
