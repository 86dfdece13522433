/** The program: every command by name, and how wrong use is reported. */
import { readFileSync } from 'node:fs';
import { Command, type CommanderError } from 'commander';

interface Entry {
  readonly summary: string;
  /** Loaded only when it is typed: half of a command's time would go into loading the others. */
  readonly load: () => Promise<Command>;
}

/** In the order in which somebody new needs them. */
const COMMANDS: Readonly<Record<string, Entry>> = {
  sandbox: {
    summary: 'run the whole service on this machine',
    load: async () => (await import('./sandbox.js')).sandboxCommand(),
  },
  trigger: {
    summary: 'sign an event and send it, or have a sandbox fire it',
    load: async () => (await import('./trigger.js')).triggerCommand(),
  },
  listen: {
    summary: 'bring events to this machine without a tunnel: poll, sign, forward, retry',
    load: async () => (await import('./listen.js')).listenCommand(),
  },
  events: {
    summary: 'list, show and replay events',
    load: async () => (await import('./events.js')).eventsCommand(),
  },
  'catch-up': {
    summary: 'poll once, forward what an endpoint missed, and prove that nothing is missing',
    load: async () => (await import('./catch-up.js')).catchUpCommand(),
  },
  verify: {
    summary: 'say whether a signature is that of a body, or why not',
    load: async () => (await import('./verify.js')).verifyCommand(),
  },
  sign: {
    summary: 'print the signature header of a body, for curl',
    load: async () => (await import('./sign.js')).signCommand(),
  },
  inbox: {
    summary: 'look into an inbox, run dead events again, prune',
    load: async () => (await import('./inbox.js')).inboxCommand(),
  },
  wallets: {
    summary: 'create a wallet, change its limits',
    load: async () => (await import('./wallets.js')).walletsCommand(),
  },
  doctor: {
    summary: 'try a running endpoint as the service would, with events marked as tests',
    load: async () => (await import('./doctor.js')).doctorCommand(),
  },
};

const EXIT_CODES = `
Exit codes: 0 good, 1 the check failed, 2 wrong use, 3 could not reach, 130 interrupted.
Settings come from flags, then from the environment: STABLEHOOKS_BASE_URL, STABLEHOOKS_TOKEN, STABLEHOOKS_SECRET.`;

/** Makes the program; it throws a `CommanderError` on wrong use and after `--help`. */
export async function createProgram(words: readonly string[]): Promise<Command> {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const program = new Command('stablehooks')
    .description('Receives the webhooks of a stablecoin movement service; these are its tools.')
    .version(String(version))
    .addHelpText('after', EXIT_CODES);
  for (const [name, { summary, load }] of Object.entries(COMMANDS)) {
    // `stablehooks help trigger` is a way to type it, too.
    const command = words.slice(0, 2).includes(name) ? await load() : new Command(name);
    program.addCommand(command.description(summary));
  }
  throwOnWrongUse(program);
  return program;
}

/** What a misuse deserves to be told beside commander's own words. */
const HINTS = [
  {
    words: /^unknown option '--secret'/,
    hint: 'A secret among the flags shows in the process list: set STABLEHOOKS_SECRET, or pass --secret-file FILE.',
  },
  {
    words: /^unknown option '--token'/,
    hint: 'A token among the flags shows in the process list: set STABLEHOOKS_TOKEN, or pass --token-file FILE.',
  },
] as const;

/** Commander's message as one sentence, and the page of help that it is about. */
export function toUsageLine(error: CommanderError, { command }: { readonly command: string }): string {
  const help = `See \`${command} --help\`.`;
  if (error.code === 'commander.help') return `Which command? ${help}`;
  const words = error.message
    .replace(/^error: /, '')
    // What was given to an option that is not known may have been a secret.
    .replace(/^(unknown option '[^'=]+)=.*'/s, "$1'")
    .replaceAll(/\s*\n\s*/g, ' ');
  const known = HINTS.find((each) => each.words.test(words));
  return known?.hint ?? `${words}${/[.?!)]$/.test(words) ? '' : '.'} ${help}`;
}

/** Commander would write two lines and end the process; main writes one and chooses the code. */
function throwOnWrongUse(command: Command): void {
  command.exitOverride().configureOutput({ outputError: () => undefined, writeErr: () => undefined });
  for (const child of command.commands) throwOnWrongUse(child);
}
