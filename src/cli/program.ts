/** The program: every command, and how wrong use is reported. */
import { readFileSync } from 'node:fs';
import { Command, type CommanderError } from 'commander';
import { catchUpCommand } from './catch-up.js';
import { doctorCommand } from './doctor.js';
import { eventsCommand } from './events.js';
import { inboxCommand } from './inbox.js';
import { listenCommand } from './listen.js';
import { sandboxCommand } from './sandbox.js';
import { signCommand } from './sign.js';
import { triggerCommand } from './trigger.js';
import { verifyCommand } from './verify.js';
import { walletsCommand } from './wallets.js';

/** In the order in which somebody new needs them. */
const COMMANDS = [
  sandboxCommand,
  triggerCommand,
  listenCommand,
  eventsCommand,
  catchUpCommand,
  verifyCommand,
  signCommand,
  inboxCommand,
  walletsCommand,
  doctorCommand,
] as const;

const EXIT_CODES = `
Exit codes: 0 good, 1 the check failed, 2 wrong use, 3 could not reach, 130 interrupted.
Settings come from flags, then from the environment: STABLEHOOKS_BASE_URL, STABLEHOOKS_TOKEN, STABLEHOOKS_SECRET.`;

/** Makes the program; it throws a `CommanderError` on wrong use and after `--help`. */
export function createProgram(): Command {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const program = new Command('stablehooks')
    .description('Receives the webhooks of a stablecoin movement service; these are its tools.')
    .version(String(version))
    .addHelpText('after', EXIT_CODES);
  for (const create of COMMANDS) program.addCommand(create());
  throwOnWrongUse(program);
  return program;
}

/** What a misuse deserves to be told beside commander's own words. */
const HINTS: Readonly<Record<string, string>> = {
  "unknown option '--secret'":
    'A secret among the flags shows in the process list: set STABLEHOOKS_SECRET, or pass --secret-file FILE.',
  "unknown option '--token'":
    'A token among the flags shows in the process list: set STABLEHOOKS_TOKEN, or pass --token-file FILE.',
};

/** Commander's message as one sentence, and the page of help that it is about. */
export function toUsageLine(error: CommanderError, { command }: { readonly command: string }): string {
  if (error.code === 'commander.help') return `Which command? See \`${command} --help\`.`;
  const words = error.message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
  const hint = Object.entries(HINTS).find(([start]) => words.startsWith(`${start}`))?.[1];
  return hint ?? `${words}. See \`${command} --help\`.`.replace(/([.?)])\. /, '$1 ');
}

/** Commander would write two lines and end the process; main writes one and chooses the code. */
function throwOnWrongUse(command: Command): void {
  command.exitOverride().configureOutput({ outputError: () => undefined, writeErr: () => undefined });
  for (const child of command.commands) throwOnWrongUse(child);
}
