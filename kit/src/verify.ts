/** `stablehooks verify`: says yes, or why not. */
import { Command } from 'commander';
import { EXIT, type ExitCode } from './exit.js';
import { explainSignature, type SignatureAnswer } from './explain-signature.js';
import { collect } from './flag-value.js';
import { readInput } from './input-file.js';
import { toPlain } from './table.js';
import { addExample, addSecretFlags, type Task, toAction } from './task.js';

interface VerifyFlags {
  readonly body: string;
  readonly signature: string;
  readonly other?: readonly string[];
}

/** The command. */
export function verifyCommand(): Command {
  const command = new Command('verify')
    .requiredOption('--body <file>', 'the body as it was received, byte for byte; - for stdin')
    .requiredOption('--signature <value>', 'the value of the signature header')
    .option(
      '--other <file>',
      'body of another delivery, whose header it may be; may be given again',
      collect,
    );
  addSecretFlags(command);
  addExample(command, ['stablehooks verify --body body.json --signature 5d41…']);
  return toAction(command, verify);
}

async function verify({ flags, settings, printer }: Task<VerifyFlags>): Promise<ExitCode> {
  const { encoding, prefix } = settings.signature;
  const body = await readInput(flags.body, { flag: '--body' });
  const others: { readonly name: string; readonly body: Uint8Array }[] = [];
  for (const name of flags.other ?? []) {
    others.push({ name, body: await readInput(name, { flag: '--other' }) });
  }
  const answer = await explainSignature({
    body,
    signature: flags.signature,
    secret: new TextEncoder().encode(await settings.secret()),
    format: { encoding, prefix },
    others,
  });
  const { good, bad } = printer.paint;
  const yes = answer.verdict === 'verified';
  printer.print({
    text: yes
      ? `${good('yes')}: the signature is that of this body`
      : `${bad('no')}: ${toWords(answer).join('\n')}`,
    data: answer,
  });
  return yes ? EXIT.good : EXIT.failed;
}

function toWords(answer: SignatureAnswer): readonly string[] {
  if (answer.verdict === 'malformed') {
    return [
      'the signature is neither 64 hex digits nor 43 or 44 of base64',
      'fix: copy the whole value of the header',
    ];
  }
  if (answer.verdict !== 'explained') {
    return [
      'the signature is not that of this body under this secret, nor under any change that was tried',
      'fix: compare the secret with the one of this endpoint, and the body with the bytes that arrived',
    ];
  }
  return [
    'the signature is not that of this body under this secret, but it would be, for:',
    ...answer.changes.flatMap(({ part, what, fix }) => [`  the ${part}: ${toPlain(what)}`, `  fix: ${fix}`]),
  ];
}
