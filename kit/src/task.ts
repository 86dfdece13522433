/** A task: one run of one command, with what it may use of the process around it. */
import { type Command, Option } from 'commander';
import { SIGNATURE_ENCODINGS } from 'stablehooks';
import type { ExitCode } from './exit.js';
import { interruption } from './interruption.js';
import { createPrinter, type Printer } from './printer.js';
import { createSettings, type SettingFlags, type Settings } from './settings.js';

/** What a command is run with. */
export interface Task<Flags> {
  readonly flags: Flags;
  /** What was typed beside the flags, in its order. */
  readonly args: readonly string[];
  readonly settings: Settings;
  readonly printer: Printer;
  /** Aborts at Ctrl-C and when whoever reads the output is gone: finish what is under way, and say so. */
  readonly signal: AbortSignal;
}

/** Flags that every command has. */
interface OutputFlags {
  readonly json?: boolean;
  readonly color: boolean;
}

/** Adds what every command has, and ties it to its run; the process ends with the code that this answers. */
export function toAction<Flags>(command: Command, run: (task: Task<Flags>) => Promise<ExitCode>): Command {
  return command
    .option('--json', 'print JSON, one value a line')
    .option('--no-color', 'print without colours, as under NO_COLOR')
    .option('--debug', 'show the stack of an error')
    .action(async () => {
      const flags = command.opts<Flags & OutputFlags & SettingFlags>();
      const { env, stdout, stderr } = process;
      process.exitCode = await run({
        flags,
        args: command.args,
        settings: createSettings(flags, { env }),
        printer: createPrinter({ stdout, stderr, env, json: flags.json === true, color: flags.color }),
        signal: interruption,
      });
    });
}

/** Adds the flags of whatever asks the service. */
export function addServiceFlags(command: Command): Command {
  return command
    .option('--base-url <url>', 'base URL of the service (environment: STABLEHOOKS_BASE_URL)')
    .option(
      '--token-file <file>',
      'file that holds the access token, - for stdin (environment: STABLEHOOKS_TOKEN)',
    );
}

/** Adds the flags of whatever signs or verifies. */
export function addSecretFlags(command: Command): Command {
  return command
    .option(
      '--secret-file <file>',
      'file that holds the webhook secret, - for stdin (environment: STABLEHOOKS_SECRET)',
    )
    .addOption(
      new Option(
        '--encoding <name>',
        'how the signature is written (default: hex to send, any to verify)',
      ).choices(SIGNATURE_ENCODINGS),
    )
    .option('--header <name>', 'header that carries the signature (default: X-SERVICE-Signature)')
    .option('--prefix <text>', 'text before the digits of the signature, such as sha256=');
}

/** An example for `--help`. */
export function addExample(command: Command, lines: readonly string[]): Command {
  return command.addHelpText('after', `\nExample:\n${lines.map((line) => `  ${line}`).join('\n')}`);
}
