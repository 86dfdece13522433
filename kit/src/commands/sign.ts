import { Command } from 'commander';
import { sign } from 'stablehooks';
import { EXIT } from '../io/output.js';
import { addAction, addSecretFlags, type CommandContext, readInput } from '../io/settings.js';

export function signCommand(): Command {
  const command = new Command('sign').requiredOption(
    '--body <file>',
    'file with the exact bytes to sign, or - for stdin',
  );
  addSecretFlags(command);
  return addAction(command, printHeader, [
    'curl -H "$(stablehooks sign --body body.json)" \\',
    '  --data-binary @body.json http://localhost:3000/hooks',
  ]);
}

async function printHeader({ flags, settings, printer }: CommandContext<{ readonly body: string }>) {
  const body = await readInput(flags.body, '--body');
  const { header, encoding, prefix } = settings.signature;
  const signature = await sign(body, { secret: await settings.secret(), encoding, prefix });
  printer.print({ text: { whole: `${header}: ${signature}` }, data: { header, signature } });
  return EXIT.good;
}
