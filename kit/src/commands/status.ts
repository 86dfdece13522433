import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { type Health, health } from 'stablehooks/health';
import { addInboxAction, addInboxFlags, type InboxFlags, type OpenInbox } from '../io/inbox.js';
import { EXIT, type ExitCode, formatClock, interruptedExit, toPlain } from '../io/output.js';
import { addProvenWithin, noteOldProof } from '../io/poll-flags.js';
import { type CommandContext, parseWait } from '../io/settings.js';

interface StatusFlags extends InboxFlags {
  readonly requirePoll?: boolean;
  readonly requirePush?: boolean;
  readonly provenWithin: number;
  readonly watch?: number | true;
}

export function statusCommand(): Command {
  const command = addInboxFlags(new Command('status'))
    .option(
      '--require-poll',
      'report the inbox as unhealthy unless a poller has proven that no event is missing',
    )
    .option('--require-push', 'report the inbox as unhealthy unless events have arrived by push')
    .option(
      '--watch [interval]',
      'check again at this interval (5s if omitted), and print each change',
      parseWait,
    );
  addProvenWithin(command);
  return addInboxAction(command, status, ['stablehooks status --inbox env:DATABASE_URL --require-poll']);
}

async function status(inbox: OpenInbox, context: CommandContext<StatusFlags>): Promise<ExitCode> {
  const { flags, printer, signal } = context;
  const { watch } = flags;
  for (let last = ''; ; ) {
    const result = await health(inbox, {
      requirePoll: flags.requirePoll ?? false,
      requirePush: flags.requirePush ?? false,
      provenMs: flags.provenWithin,
    });
    if (result.verdict !== last) {
      if (watch !== undefined) printer.note(formatClock(new Date()));
      print(result, context);
    }
    last = result.verdict;
    if (watch === undefined) {
      await noteOldProof(inbox, flags, printer);
      return result.healthy ? EXIT.good : EXIT.failed;
    }
    await wait(watch === true ? WATCH_MS : watch, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return interruptedExit();
  }
}

const WATCH_MS = 5_000;

function print(result: Health, { printer }: CommandContext<StatusFlags>): void {
  const { good, bad } = printer.paint;
  const marks = { ok: good('ok'), neutral: '--', warning: ' !', failing: bad('no') };
  const lines = result.checks.map(
    ({ name, tone, message }) => `${marks[tone]}  ${name.padEnd(8)}  ${toPlain(message)}`,
  );
  const verdict = result.tone === 'failing' ? bad(result.verdict) : result.verdict;
  printer.print({ text: [...lines, verdict].join('\n'), data: result });
}
