import { Command } from 'commander';
import { sign } from 'stablehooks';
import { EXIT, type ExitCode } from '../io/output.js';
import { addAction, addExample, addSecretFlags, type CommandContext, readInput } from '../io/settings.js';

interface SignFlags {
  readonly body: string;
}

export function signCommand(): Command {
  const command = new Command('sign').requiredOption(
    '--body <file>',
    'the body to sign, byte for byte; - for stdin',
  );
  addSecretFlags(command);
  addExample(command, [
    'curl -H "$(stablehooks sign --body body.json)" \\',
    '  --data-binary @body.json http://localhost:3000/hooks',
  ]);
  return addAction(command, printHeader);
}

async function printHeader({ flags, settings, printer }: CommandContext<SignFlags>): Promise<ExitCode> {
  const body = await readInput(flags.body, '--body');
  const { header, encoding, prefix } = settings.signature;
  const signature = await sign(body, { secret: await settings.secret(), encoding, prefix });
  printer.print({ text: `${header}: ${signature}`, data: { header, signature } });
  return EXIT.good;
}
