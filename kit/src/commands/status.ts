import { Command } from 'commander';
import { health } from 'stablehooks/health';
import { addInboxAction, addInboxFlags, type InboxFlags, type OpenInbox } from '../io/inbox.js';
import { EXIT, toPlain } from '../io/output.js';
import { addProvenWithin } from '../io/poll-flags.js';
import type { CommandContext } from '../io/settings.js';

interface StatusFlags extends InboxFlags {
  readonly requirePoll?: boolean;
  readonly requirePush?: boolean;
  readonly provenWithin: number;
}

export function statusCommand(): Command {
  const command = addInboxFlags(new Command('status'))
    .option('--require-poll', 'unhealthy unless a poller has proven that push loses nothing')
    .option('--require-push', 'unhealthy unless events came by push');
  addProvenWithin(command);
  return addInboxAction(command, status, ['stablehooks status --inbox env:DATABASE_URL --require-poll']);
}

async function status(inbox: OpenInbox, { flags, printer }: CommandContext<StatusFlags>) {
  const result = await health(inbox, {
    requirePoll: flags.requirePoll ?? false,
    requirePush: flags.requirePush ?? false,
    provenMs: flags.provenWithin,
  });
  const { good, bad } = printer.paint;
  const marks = { ok: good('ok'), neutral: '--', warning: ' !', failing: bad('no') };
  const lines = result.checks.map(
    ({ name, tone, message }) => `${marks[tone]}  ${name.padEnd(8)}  ${toPlain(message)}`,
  );
  const verdict = result.tone === 'failing' ? bad(result.verdict) : result.verdict;
  printer.print({ text: [...lines, verdict].join('\n'), data: result });
  return result.healthy ? EXIT.good : EXIT.failed;
}
