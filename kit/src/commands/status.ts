import { Command } from 'commander';
import { type HealthCheck, health } from 'stablehooks/health';
import { addInboxAction, addInboxFlags, type InboxFlags, type OpenInbox } from '../io/inbox.js';
import { EXIT, toPlain } from '../io/output.js';
import { addProvenWithin } from '../io/poll-flags.js';
import type { CommandContext } from '../io/settings.js';

interface StatusFlags extends InboxFlags {
  readonly requirePoll?: boolean;
  readonly provenWithin: number;
}

export function statusCommand(): Command {
  const command = addInboxFlags(new Command('status')).option(
    '--require-poll',
    'unhealthy unless a poller has proven that push loses nothing',
  );
  addProvenWithin(command);
  return addInboxAction(command, status, ['stablehooks status --inbox env:DATABASE_URL --require-poll']);
}

async function status(inbox: OpenInbox, { flags, printer }: CommandContext<StatusFlags>) {
  const result = await health(inbox, {
    requirePoll: flags.requirePoll ?? false,
    provenMs: flags.provenWithin,
  });
  const { good, bad } = printer.paint;
  const toMark = ({ healthy, shown }: HealthCheck) => (healthy ? (shown ? good('ok') : '--') : bad('no'));
  const lines = result.checks.map(
    (check) => `${toMark(check)}  ${check.name.padEnd(8)}  ${toPlain(check.message)}`,
  );
  const verdict = result.healthy ? good('healthy') : bad('unhealthy');
  printer.print({ text: [...lines, verdict].join('\n'), data: result });
  return result.healthy ? EXIT.good : EXIT.failed;
}
