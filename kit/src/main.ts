#!/usr/bin/env node
import { readFileSync, writeSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { toFailure } from './io/errors.js';
import {
  describeStack,
  EXIT,
  interruptedExit,
  interruption,
  isInterruption,
  redact,
  watchInterruption,
  wrapFor,
} from './io/output.js';

interface CommandEntry {
  /** @default the group of the previous command */
  readonly group?: string;
  readonly summary: string;
  /** Loading all commands takes longer than running one. */
  readonly load: () => Promise<Command>;
}

/** In the order of `--help`, which is the order in which a new user needs the commands. */
const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  init: {
    group: 'Develop:',
    summary: 'create a complete program for your framework and database',
    load: async () => (await import('./commands/init.js')).initCommand(),
  },
  sandbox: {
    summary: 'run a simulated service on your machine',
    load: async () => (await import('./commands/sandbox.js')).sandboxCommand(),
  },
  trigger: {
    summary: 'sign and send a test event, directly or through the sandbox',
    load: async () => (await import('./commands/trigger.js')).triggerCommand(),
  },
  listen: {
    summary: 'forward events to your machine without a tunnel (polls, signs, sends and retries)',
    load: async () => (await import('./commands/listen.js')).listenCommand(),
  },
  doctor: {
    summary: 'check a running endpoint (runs your handlers only with --run-handlers)',
    load: async () => (await import('./commands/doctor.js')).doctorCommand(),
  },
  certify: {
    summary: 'kill your app at every statement and count the effects of each event',
    load: async () => (await import('./commands/certify.js')).certifyCommand(),
  },
  verify: {
    summary: 'check whether a signature matches a body and, if not, explain why',
    load: async () => (await import('./commands/verify.js')).verifyCommand(),
  },
  sign: {
    summary: 'print the signature header for a body, to use with curl',
    load: async () => (await import('./commands/sign.js')).signCommand(),
  },
  wallets: {
    summary: 'create a wallet or change its limits',
    load: async () => (await import('./commands/wallets.js')).walletsCommand(),
  },
  status: {
    group: 'Operate:',
    summary: 'check an inbox for overdue events, dead events and gaps',
    load: async () => (await import('./commands/status.js')).statusCommand(),
  },
  inbox: {
    summary: 'list, requeue, run, discard, import or prune the events of an inbox',
    load: async () => (await import('./commands/inbox.js')).inboxCommand(),
  },
  where: {
    summary: 'show every event of a movement, and whether later events may be missing',
    load: async () => (await import('./commands/where.js')).whereCommand(),
  },
  events: {
    summary: 'list, show and replay events',
    load: async () => (await import('./commands/events.js')).eventsCommand(),
  },
  'catch-up': {
    summary: 'poll once, forward the events that an endpoint missed, and prove that no event is missing',
    load: async () => (await import('./commands/catch-up.js')).catchUpCommand(),
  },
  gaps: {
    summary: 'list and acknowledge gaps (time spans in which events may be missing)',
    load: async () => (await import('./commands/gaps.js')).gapsCommand(),
  },
  reconcile: {
    summary: "compare the service's event list, the inbox and your ledger",
    load: async () => (await import('./commands/reconcile.js')).reconcileCommand(),
  },
  inspect: {
    summary: 'serve a web page that shows the events and coverage of an inbox',
    load: async () => (await import('./commands/inspect.js')).inspectCommand(),
  },
};

const HELP_FOOTER = `
Exit codes: 0 success, 1 the check failed, 2 usage error, 3 unreachable,
130 interrupted.
Settings are read from flags, then from the environment (STABLEHOOKS_BASE_URL,
STABLEHOOKS_TOKEN, STABLEHOOKS_SECRET, and STABLEHOOKS_INBOX or DATABASE_URL),
then from the file that --env-file names.`;

const [first, ...others] = process.argv.slice(2);
const words = toWords();
// Node's own warnings, for example about the experimental node:sqlite, do not help operators.
if (!words.includes('--debug')) process.removeAllListeners('warning');
watchInterruption();
process.on('exit', reportLostOutput);
const program = await createProgram();
try {
  await program.parseAsync(words, { from: 'user' });
} catch (error) {
  fail(error);
}

/** `help X` becomes `X --help`, because commander's own `help` does not print the help of subcommands. */
function toWords(): readonly string[] {
  if (first !== 'help' || others[0] === undefined) return process.argv.slice(2);
  return Object.hasOwn(COMMANDS, others[0]) ? [...others, '--help'] : others;
}

async function createProgram(): Promise<Command> {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const root = new Command('stablehooks')
    .description('Tools for the webhooks of a stablecoin movement service.')
    .version(String(version), '-v, --version')
    .addHelpText('after', HELP_FOOTER)
    // This hook must run before the command's own hooks, because they read the environment.
    .hook('preAction', async (_root, command) => {
      const { envFile } = command.opts();
      if (envFile !== undefined) await (await import('./io/settings.js')).loadEnvironment(envFile);
    });
  for (const [name, { group, summary, load }] of Object.entries(COMMANDS)) {
    if (group !== undefined) root.commandsGroup(group);
    const command = words[0] === name ? await load() : new Command(name);
    root.addCommand(command.description(summary));
  }
  root.commandsGroup('Other:').helpCommand(true);
  throwUsageErrors(root);
  return root;
}

/** Otherwise, commander would print two lines and end the process, whereas `fail` prints one line. */
function throwUsageErrors(command: Command): void {
  command.exitOverride().configureOutput({ outputError: () => undefined, writeErr: () => undefined });
  for (const child of command.commands) throwUsageErrors(child);
}

function fail(error: unknown): void {
  // Commander also throws after it has printed help or the version.
  if (error instanceof CommanderError && error.exitCode === 0) return;
  if (isInterruption(error)) {
    process.exitCode = interruptedExit();
    return;
  }
  const { exitCode, message } = toFailure(error);
  process.exitCode = exitCode;
  if (error instanceof CommanderError && error.code === 'commander.help') {
    // Nothing was done, because a command or a subcommand is missing, so the exit code is not 0.
    process.stdout.write(typedCommand().helpInformation());
    return;
  }
  const line = redact(`stablehooks: ${error instanceof CommanderError ? toUsageLine(error) : message}`);
  process.stderr.write(`${wrapFor(process.stderr, [line])}\n`);
  // Commander's errors quote the typed words, which can contain a secret, and the stacks of these errors add nothing.
  if (words.includes('--debug') && !(error instanceof CommanderError))
    process.stderr.write(`${describeStack(error)}\n`);
}

function toUsageLine(error: CommanderError): string {
  const help = `See \`${nameOf(typedCommand())} --help\`.`;
  const message = error.message
    .replace(/^error: /, '')
    // The value of an unknown option can be a secret.
    .replace(/^(unknown option '[^'=]+)=.*'/s, "$1'")
    .replaceAll(/\s*\n\s*/g, ' ');
  const [, hidden] = /^unknown option '--(secret|token)'/.exec(message) ?? [];
  return hidden === undefined
    ? `${message}${/[.?!)]$/.test(message) ? '' : '.'} ${help}`
    : `A ${hidden} passed as a flag is visible in the process list. Set STABLEHOOKS_${hidden.toUpperCase()}, or pass --${hidden}-file FILE.`;
}

function typedCommand(): Command {
  let command = program;
  for (const word of words) {
    const child = command.commands.find((each) => each.name() === word);
    if (child === undefined) break;
    command = child;
  }
  return command;
}

function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}

/** A command can succeed even if its output cannot be written. */
function reportLostOutput(): void {
  if (!interruption.aborted || interruptedExit() !== EXIT.unreachable) return;
  process.exitCode = EXIT.unreachable;
  writeSync(process.stderr.fd, `stablehooks: ${redact(toFailure(interruption.reason).message)}\n`);
}
