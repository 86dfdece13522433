/** `stablehooks listen`: brings real events to a laptop without a tunnel: polls the list and forwards. */
import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { createPoller } from 'stablehooks/catch-up';
import { printRow } from './delivery-report.js';
import { type Moment, parseMoment, parseWait, toDate } from './duration.js';
import { readEventType } from './event-type.js';
import { EXIT, type ExitCode } from './exit.js';
import { createForwarder } from './forwarding.js';
import { openJournal } from './journal-inbox.js';
import { assertPolled, toWords } from './poll-report.js';
import { createService } from './service.js';
import { parseUrl } from './settings.js';
import { addExample, addSecretFlags, addServiceFlags, type Task, toAction } from './task.js';
import { witness } from './witness.js';

interface ListenFlags {
  readonly forwardTo: string;
  readonly types?: string;
  readonly every: number;
  readonly since?: Moment;
  readonly state: string;
  readonly timeout: number;
}

/** The command. */
export function listenCommand(): Command {
  const command = new Command('listen')
    .requiredOption('--forward-to <url>', 'endpoint to forward to')
    .option('--types <list>', 'only these event types, with commas between them')
    .option('--every <duration>', 'from one poll to the next', parseWait, 2_000)
    .option(
      '--since <time>',
      'from when on, the first time that the state file is used (default: now)',
      parseMoment,
    )
    .option('--state <file>', 'file that keeps the place', '.stablehooks-listen.jsonl')
    .option('--timeout <duration>', 'how long the endpoint has to answer', parseWait, 10_000);
  addServiceFlags(addSecretFlags(command));
  addExample(command, [
    'stablehooks listen --forward-to http://localhost:3000/hooks --types transfer.settled,transfer.failed',
  ]);
  return toAction(command, listen);
}

async function listen({ flags, settings, printer, signal }: Task<ListenFlags>): Promise<ExitCode> {
  const url = parseUrl(flags.forwardTo, { name: '--forward-to' });
  const types = flags.types?.split(',').map((type) => readEventType(type.trim()));
  const service = await createService(settings);
  const since = toDate(flags.since ?? { agoMs: 0 }, { now: Date.now() });
  const journal = await openJournal(flags.state, { startMs: since.getTime() });
  const events = witness(service.events);
  const inbox = witness(journal.inbox);
  let forwarded = 0;
  const receiver = await createForwarder(url, {
    settings,
    inbox: inbox.target,
    timeoutMs: flags.timeout,
    startMs: journal.startMs,
    ...(types && { types }),
    onAttempt(row) {
      forwarded += 1;
      printRow(printer, row);
    },
  });
  const poller = createPoller({
    client: { events: events.target },
    receiver,
    since: new Date(journal.startMs),
    onGap: ({ type, after, before }) =>
      printer.note(
        `${type ?? 'Events'} created between ${after} and ${before} may be missing: the list cannot prove otherwise.`,
      ),
  });

  printer.note(
    `Listening since ${new Date(journal.startMs).toISOString()}, forwarding to ${url}. Ctrl-C ends it.`,
  );
  for (let trouble = '', polls = 0; !signal.aborted; polls++) {
    const report = await poller.pollOnce({ signal });
    // A disk that takes no more, or a first poll that fails, ends it; any later trouble may pass.
    if (inbox.lastError() !== undefined) throw inbox.lastError();
    const found = signal.aborted
      ? ''
      : troubleOf(() => assertPolled(report, { errors: [events.lastError()] }), polls);
    if (found !== trouble && found !== '') printer.note(`${found} Trying again every ${flags.every} ms.`);
    trouble = found;
    await wait(flags.every, undefined, { signal }).catch(() => undefined);
  }
  printer.note(
    `Stopped after ${forwarded} deliveries. The place is kept in ${flags.state}: run it again to go on.`,
  );
  return EXIT.good;
}

/** The words of what went wrong; on the first poll the error itself, thrown on. */
function troubleOf(assert: () => void, polls: number): string {
  try {
    assert();
    return '';
  } catch (error) {
    if (polls === 0) throw error;
    return toWords(error);
  }
}
