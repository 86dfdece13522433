import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import type { EventType } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { AppProcess } from '../certify/app-process.js';
import { certify, createService } from '../certify/certify.js';
import { Notes } from '../certify/notes.js';
import { countCases, toJunit, toText } from '../certify/report.js';
import { unreachableError, usageError } from '../io/errors.js';
import { readPlace } from '../io/inbox.js';
import { EXIT, toPlain } from '../io/output.js';
import {
  addAction,
  addSecretFlags,
  type CommandContext,
  parseEventType,
  parseUrl,
  parseWait,
  readPayload,
  refuseFlags,
  withScheme,
} from '../io/settings.js';

interface CertifyFlags {
  readonly app: string;
  readonly url: string;
  readonly effects: string;
  readonly database: string;
  readonly inbox?: string;
  readonly namespace?: string;
  readonly type: EventType;
  readonly payload?: string;
  readonly junit?: string;
  readonly allowNotShown?: boolean;
  readonly start: number;
  readonly settle: number;
}

export function certifyCommand(): Command {
  const command = new Command('certify')
    .requiredOption('--app <command>', 'command that starts your app')
    .requiredOption('--url <url>', "local URL of your app's webhook endpoint")
    .requiredOption(
      '--effects <select>',
      'SQL query that returns the rows written by your handler, including their event ids',
    )
    .requiredOption(
      '--database <location>',
      'database to run the query in: SQLite file, postgres: URL, or env:NAME to read either of them from an environment variable',
    )
    .option('--inbox <location>', 'location of the inbox (default: the same as --database)')
    .option('--namespace <name>', '`schema` or `prefix` of the inbox (default: stablehooks)')
    .option('--type <type>', 'type of the events to send', parseEventType, 'transfer.settled')
    .option(
      '--payload <file>',
      'JSON file with the payload; {new} is replaced with a different value in each event',
    )
    .option('--junit <file>', 'write the result to this file as JUnit XML')
    .option(
      '--allow-not-shown',
      'exit with 0 even if some runs were inconclusive, provided that no run failed',
    )
    .option('--start <duration>', 'how long to wait for your app to listen', parseWait, 30_000)
    .option('--settle <duration>', 'how long to wait for an event to take effect', parseWait, 10_000);
  addSecretFlags(command);
  return addAction(command, run, [
    "stablehooks certify --app 'node server.mjs' --url http://localhost:3000/hooks --effects 'SELECT event_id, amount FROM ledger' --database app.db",
    '',
    'certify starts your app many times, against a sandbox and the real database,',
    'so use a database that you can throw away. The app gets STABLEHOOKS_BASE_URL,',
    'STABLEHOOKS_TOKEN and STABLEHOOKS_SECRET from the sandbox. Exit code 0 means',
    'that no run was inconclusive and that every effect happened exactly once.',
  ]);
}

/** A query on the inbox would prove nothing, because the inbox contains an event once even if its effect happened twice. */
function refuseInboxTables({ effects, namespace = 'stablehooks' }: CertifyFlags): void {
  const names = effects
    .replaceAll(/["`]/g, ' ')
    .replaceAll(/\s*\.\s*/g, '.')
    .toLowerCase()
    .split(/[^\w.]+/);
  const table = ['events', 'steps', 'notes']
    .flatMap((name) => [`${namespace}.${name}`, `${namespace}_${name}`])
    .find((name) => names.includes(name.toLowerCase()));
  if (table === undefined) return;
  throw usageError(
    `--effects reads ${toPlain(table)}, which is a table of the inbox. The inbox contains each event once, whatever your handler does. Select from the table that your handler writes to.`,
  );
}

async function run({ flags, given, settings, printer, signal }: CommandContext<CertifyFlags>) {
  const url = parseUrl(withScheme(flags.url), '--url');
  const secret = (await settings.optional.secret()) ?? 'sandbox-secret';
  const { header, encoding } = settings.signature;
  refuseInboxTables(flags);
  refuseFlags(
    given,
    ['prefix'],
    'cannot be used: the sandbox sends no prefix. Remove the prefix here and in your app for this run.',
  );
  const service = createService({ url, signatureHeader: header, encoding, secret });
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-certify-'));
  const { url: baseUrl } = await service.listen(0);
  const env = { STABLEHOOKS_BASE_URL: baseUrl, STABLEHOOKS_TOKEN: service.token, STABLEHOOKS_SECRET: secret };
  const app = new AppProcess({ command: flags.app, url: new URL(url), env, startMs: flags.start, signal });
  const progress = printer.progress('certify', 1_000);
  try {
    const certificate = await certify({
      app,
      notes: new Notes(folder),
      sandbox: service,
      setup: { folder, path: new URL(url).pathname, laterMs: 0 },
      database: readPlace(flags.database, '--database'),
      sql: flags.effects,
      inbox: {
        inbox: flags.inbox ?? flags.database,
        ...(flags.namespace === undefined ? {} : { namespace: flags.namespace }),
      },
      type: flags.type,
      payload: JSON.stringify(
        flags.payload === undefined ? examplePayload(flags.type) : await readPayload(flags.payload),
      ),
      settleMs: flags.settle,
      signal,
      onRun: (done, total) => progress.show(Math.round((done * 1_000) / total)),
    });
    progress.clear();
    const { failed, notShown } = countCases(certificate);
    printer.print({ text: toText(certificate, printer.paint), data: { ...certificate, failed, notShown } });
    if (flags.junit !== undefined) await writeJunit(flags.junit, toJunit(certificate));
    return failed > 0 || (notShown > 0 && flags.allowNotShown !== true) ? EXIT.failed : EXIT.good;
  } finally {
    progress.clear();
    await app.stop();
    await service.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** `certify` replaces `{new}` with a different value in each event. */
function examplePayload(type: EventType): Readonly<Record<string, unknown>> {
  const { payload } = exampleEvent(type);
  return Object.fromEntries(
    Object.entries<unknown>(payload).map(([name, value]) => {
      if (/^(?:accept|transfer|redeem)_id$/.test(name)) return [name, `${String(value).split('_')[0]}_{new}`];
      return [name, name === 'tx_hash' ? `0x${'0'.repeat(54)}{new}` : value];
    }),
  );
}

async function writeJunit(path: string, xml: string): Promise<void> {
  try {
    await writeFile(path, xml);
  } catch (cause) {
    throw unreachableError(`--junit ${toPlain(path)}: the file cannot be written. Check the folder.`, {
      cause,
    });
  }
}
