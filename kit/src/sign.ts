/** `stablehooks sign`: the header to send with a body, for curl. */
import { Command } from 'commander';
import { sign } from 'stablehooks';
import { EXIT, type ExitCode } from './exit.js';
import { readInput } from './input-file.js';
import { addExample, addSecretFlags, type Task, toAction } from './task.js';

interface SignFlags {
  readonly body: string;
}

/** The command. */
export function signCommand(): Command {
  const command = new Command('sign').requiredOption(
    '--body <file>',
    'the body to sign, byte for byte; - for stdin',
  );
  addSecretFlags(command);
  addExample(command, [
    'curl -H "$(stablehooks sign --body body.json)" --data-binary @body.json http://localhost:3000/hooks',
  ]);
  return toAction(command, run);
}

async function run({ flags, settings, printer }: Task<SignFlags>): Promise<ExitCode> {
  const body = await readInput(flags.body, { flag: '--body' });
  const { header, encoding, prefix } = settings.signature;
  const signature = await sign(body, { secret: await settings.secret(), encoding, prefix });
  printer.print({ text: `${header}: ${signature}`, data: { header, signature } });
  return EXIT.good;
}
