/** The program: every command, and how wrong use is reported. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { doctorCommand } from './doctor.js';
import { signCommand } from './sign.js';
import { verifyCommand } from './verify.js';

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
  for (const command of [verifyCommand(), signCommand(), doctorCommand()]) program.addCommand(command);
  throwOnWrongUse(program);
  return program;
}

/** Commander would write two lines and end the process; main writes one and chooses the code. */
function throwOnWrongUse(command: Command): void {
  command.exitOverride().configureOutput({ outputError: () => undefined });
  for (const child of command.commands) throwOnWrongUse(child);
}
