import { Command } from 'commander';
import { type HealthCheck, health } from 'stablehooks/health';
import { addInboxFlags, type InboxFlags, withInbox } from '../io/inbox.js';
import { EXIT, toPlain } from '../io/output.js';
import { addAction, addExample, parseDuration } from '../io/settings.js';

interface StatusFlags extends InboxFlags {
  readonly requirePoll?: boolean;
  readonly provenWithin: number;
}

export function statusCommand(): Command {
  const command = addInboxFlags(new Command('status'))
    .option('--require-poll', 'unhealthy unless a poller has proven that push loses nothing')
    .option(
      '--proven-within <duration>',
      'how old the last proof of the list may be',
      parseDuration,
      3_600_000,
    );
  addExample(command, ['stablehooks status --inbox env:DATABASE_URL --require-poll']);
  return addAction<StatusFlags>(command, ({ flags, printer }) =>
    withInbox(flags, async (inbox) => {
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
    }),
  );
}
