import { Command } from 'commander';
import { explainSignature, type SignatureExplanation } from '../explain/explain-signature.js';
import { EXIT, type Progress, toPlain } from '../io/output.js';
import { addAction, addSecretFlags, type CommandContext, collect, readInput } from '../io/settings.js';

interface VerifyFlags {
  readonly body: string;
  readonly signature: string;
  readonly other?: readonly string[];
}

export function verifyCommand(): Command {
  const command = new Command('verify')
    .requiredOption('--body <file>', 'file with the body exactly as it was received, or - for stdin')
    .requiredOption('--signature <value>', 'value of the signature header')
    .option(
      '--other <file>',
      'file with the body of another delivery, in case the signature belongs to it; can be repeated',
      collect,
    );
  // `--signature` contains only the value of the header, so the header's name has no effect.
  addSecretFlags(command, { header: false });
  return addAction(command, verify, ['stablehooks verify --body body.json --signature 5d41…']);
}

async function verify({ flags, settings, printer, signal }: CommandContext<VerifyFlags>) {
  const { encoding, prefix } = settings.signature;
  const body = await readInput(flags.body, '--body');
  const others: { readonly name: string; readonly body: Uint8Array }[] = [];
  for (const name of flags.other ?? []) {
    others.push({ name, body: await readInput(name, '--other') });
  }
  const question = {
    body,
    signature: flags.signature,
    secret: new TextEncoder().encode(await settings.rawSecret()),
    format: { encoding, prefix },
    others,
  };
  let progress: Progress | undefined;
  const explanation = await explainSignature(question, (tried, total) => {
    signal.throwIfAborted();
    // A small body is explained before anyone could read a progress bar.
    if (body.length < MIN_PROGRESS_BYTES) return;
    progress ??= printer.progress('verify', total);
    progress.show(tried);
  }).finally(() => progress?.clear());
  const { good, bad } = printer.paint;
  const yes = explanation.verdict === 'verified';
  printer.print({
    text: yes
      ? `${good('yes')}: the signature matches this body`
      : `${bad('no')}: ${toLines(explanation).join('\n')}`,
    data: explanation,
  });
  return yes ? EXIT.good : EXIT.failed;
}

const MIN_PROGRESS_BYTES = 1_048_576;

function toLines(explanation: SignatureExplanation): readonly string[] {
  if (explanation.verdict === 'malformed') {
    return [
      'the signature is neither 64 hex digits nor 43 or 44 characters of base64',
      'fix: copy the whole header value',
    ];
  }
  if (explanation.verdict !== 'explained') {
    return [
      'the signature does not match this body and this secret, and no known change explains why',
      'fix: check that the secret is the one for this endpoint, and that the body has exactly the bytes that arrived',
    ];
  }
  return [
    'the signature does not match this body and this secret. The cause:',
    ...explanation.changes.flatMap(({ part, what, fix }) => [
      `  the ${part}: ${toPlain(what)}`,
      `  fix: ${fix}`,
    ]),
  ];
}
