import { once } from 'node:events';
import { Command } from 'commander';
import { POLL_NOTE } from 'stablehooks/catch-up';
import { fromInbox, INBOX_METHODS } from '../inspector/inbox-source.js';
import { serveInspector } from '../inspector/local-server.js';
import type { InspectedInbox } from '../inspector/source.js';
import { addInboxFlags, type InboxFlags, type OpenInbox, openInbox, withInbox } from '../io/inbox.js';
import { interruptedExit, toPlain } from '../io/output.js';
import { namePlace } from '../io/place.js';
import { addAction, type CommandContext, parseWhole } from '../io/settings.js';

interface InspectFlags extends InboxFlags {
  readonly port: number;
  readonly readOnly?: boolean;
}

export function inspectCommand(): Command {
  const command = addInboxFlags(new Command('inspect'))
    .option('--port <number>', 'local port to listen on; 0 picks any free port', parseWhole, 0)
    .option('--read-only', 'disable the actions on the page: requeue, discard and acknowledge a gap');
  return addAction(command, inspect, ['stablehooks inspect --inbox events.db']);
}

async function inspect({ flags, printer, signal }: CommandContext<InspectFlags>) {
  // If the inbox is unusable, the command must fail before it serves the page.
  await withInbox(flags, async (opened) => opened.readNote(POLL_NOTE));
  await using inbox = openAgain(flags);
  const place = namePlace(flags.inbox);
  const name = flags.namespace === undefined ? place : `${place} (${flags.namespace})`;
  const isPlain = place === flags.inbox;
  const source = fromInbox(inbox.operations, { name, ...(isPlain && { flag: place }) });
  const server = await serveInspector(source, {
    port: flags.port,
    ...(flags.readOnly && { actions: [] }),
  });
  try {
    printer.print({
      text: `The inspector of ${toPlain(name)} is at:\n${server.url}\nPress Ctrl-C to stop.`,
      data: { kind: 'inspector.listening', url: server.url },
    });
    if (!signal.aborted) await once(signal, 'abort');
    return interruptedExit();
  } finally {
    await server.close();
  }
}

/** If a call fails or the file is replaced, the next call reopens the inbox. */
function openAgain(flags: InboxFlags): AsyncDisposable & { readonly operations: InspectedInbox } {
  let opened: Promise<OpenInbox> | undefined;

  /** Several calls can fail together, but the failed inbox must be closed only once, and its replacement must stay open. */
  async function close(failed: Promise<OpenInbox> | undefined): Promise<void> {
    if (failed === undefined || opened !== failed) return;
    opened = undefined;
    // Closing a failed inbox can fail as well.
    await failed.then((inbox) => inbox.close()).catch(() => undefined);
  }

  const call =
    (name: (typeof INBOX_METHODS)[number]) =>
    async (...values: readonly unknown[]) => {
      opened ??= openInbox(flags);
      const mine = opened;
      try {
        const inbox = await mine;
        if (inbox.isCurrent?.() === false) throw new Error('The inbox file was replaced.');
        return await (inbox[name] as (...values: readonly unknown[]) => Promise<unknown>)(...values);
      } catch (error) {
        void close(mine);
        throw error;
      }
    };
  return {
    operations: Object.fromEntries(
      INBOX_METHODS.map((name) => [name, call(name)]),
    ) as unknown as InspectedInbox,
    [Symbol.asyncDispose]: () => close(opened),
  };
}
