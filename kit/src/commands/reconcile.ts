import { Command, InvalidArgumentError } from 'commander';
import { type EventType, isDateTime, type UnknownEvent } from 'stablehooks';
import {
  type DailyTotal,
  type Finding,
  normalizeAmount,
  type ReconcileProgress,
  type ReconcileResult,
  reconcile,
} from 'stablehooks/reconcile';
import { usageError } from '../io/errors.js';
import { addInboxFlags, type InboxFlags, openInbox } from '../io/inbox.js';
import { type LedgerFile, type LedgerRow, openLedger } from '../io/ledger.js';
import {
  countOf,
  EXIT,
  type Paint,
  type Printer,
  type Progress,
  type Text,
  toPlain,
  toTable,
} from '../io/output.js';
import { addPollFlags, type PollFlags, toPollOptions } from '../io/poll-flags.js';
import {
  addAction,
  addServiceFlags,
  type CommandContext,
  collect,
  collectTypes,
  isObject,
  type Moment,
  parseMoment,
  toDate,
} from '../io/settings.js';

interface ReconcileFlags extends PollFlags, InboxFlags {
  readonly ledger: string;
  readonly since: Moment;
  readonly until?: Moment;
  readonly idColumn: string;
  readonly timeColumn?: string;
  readonly amountColumn?: string;
  readonly amountField?: string;
  readonly currencyField?: string;
  readonly copiedAt?: Moment;
  readonly compare?: readonly string[];
  readonly ledgerTypes?: readonly EventType[];
  readonly delimiter: string;
  readonly daily?: boolean;
  readonly csv?: boolean;
  readonly dryRun?: boolean;
}

export function reconcileCommand(): Command {
  const command = addInboxFlags(
    new Command('reconcile').requiredOption(
      '--ledger <file>',
      'CSV file with a header and one row per ledger entry, or - for stdin',
    ),
  )
    .requiredOption(
      '--since <time>',
      'compare events created at or after this time; pass a time, a date in UTC or an age such as 7d',
      parseMoment,
    )
    .option(
      '--until <time>',
      'compare events created before this time (default: now minus --lag, or --copied-at if that is earlier)',
      parseMoment,
    )
    .option(
      '--copied-at <time>',
      'when the file was exported from the ledger (default: its modification time)',
      parseMoment,
    )
    .option('--id-column <name>', 'column with the event id', 'event_id')
    .option(
      '--time-column <name>',
      "column with the event's created_at, including a UTC offset; entries outside the span are left out",
    )
    .option('--amount-column <name>', "column with a decimal amount to compare with the event's amount")
    .option('--amount-field <path>', 'path to the amount in the event (default: payload.amount)')
    .option(
      '--currency-field <path>',
      'path to the currency in the event, for --daily (default: payload.currency)',
    )
    .option(
      '--compare <column=path>',
      'column to compare as text with the value at a path in the event; can be repeated',
      collect,
    )
    .option(
      '--ledger-types <types>',
      'event types that your ledger records, comma-separated (default: all five)',
      (value) => collectTypes(value),
    )
    .option('--delimiter <character>', 'column separator', parseDelimiter, ',')
    .option('--daily', 'print totals per day and type')
    .option('--csv', 'print the findings as CSV')
    .option('--dry-run', 'only compare; do not add missing events to the inbox');
  addServiceFlags(addPollFlags(command));
  return addAction(command, run, [
    'stablehooks reconcile --ledger ledger.csv --inbox events.db --since 7d --amount-column amount --dry-run',
  ]);
}

async function run({ flags, settings, printer, signal }: CommandContext<ReconcileFlags>) {
  if (flags.csv && printer.json) throw usageError('--csv and --json cannot be combined. Pass one of them.');
  if (flags.csv && flags.daily) throw usageError('--csv prints only findings. Pass --daily without --csv.');
  if (flags.amountField !== undefined && flags.amountColumn === undefined) {
    throw usageError('--amount-field needs --amount-column. Pass both.');
  }
  if (flags.currencyField !== undefined && (flags.amountColumn === undefined || flags.daily !== true)) {
    throw usageError(
      '--currency-field needs --daily and --amount-column, because it groups the daily sums by currency. Pass all three.',
    );
  }
  const pollOptions = toPollOptions(flags);
  const amountField = flags.amountField ?? 'payload.amount';
  const currencyField = flags.currencyField ?? 'payload.currency';
  const now = Date.now();
  const pairs = (flags.compare ?? []).map(parsePair);
  const optional = [flags.timeColumn, flags.amountColumn].filter((name) => name !== undefined);
  const columns = [flags.idColumn, ...optional, ...pairs.map(({ column }) => column)];
  const client = await settings.client();
  const inbox = await openInbox(flags);
  const file = await openLedger(flags.ledger, { columns, delimiter: flags.delimiter }).catch(
    async (error) => {
      await inbox.close();
      throw error;
    },
  );
  const comparesValues = flags.amountColumn !== undefined || pairs.length > 0;
  const paths = new Set<string>();
  const progress = createProgress(printer, file);
  const report = createReport(printer, { csv: flags.csv === true, comparesValues });
  try {
    const result = await reconcile({
      client,
      inbox,
      ledger: readEntries(file, flags, columns),
      copiedAt: flags.copiedAt === undefined ? file.writtenAt : toDate(flags.copiedAt, now),
      since: toDate(flags.since, now),
      until: flags.until && toDate(flags.until, now),
      compare: !comparesValues
        ? undefined
        : (entry, event) => {
            for (const { path } of pairs) if (textAt(event, path) !== undefined) paths.add(path);
            return compareEntry(entry, event, { amountField, pairs });
          },
      ledgerTypes: flags.ledgerTypes,
      daily: flags.daily === true,
      amounts:
        flags.amountColumn === undefined
          ? undefined
          : {
              event: (event) => textAt(event, amountField),
              entry: ({ amount }) => amount,
              currency: (event) => textAt(event, currencyField),
            },
      dryRun: flags.dryRun === true,
      ...pollOptions,
      signal,
      onFinding: (finding) => {
        progress.clear();
        report.add(finding);
      },
      onProgress: progress.show,
    });
    progress.clear();
    report.end(result);
    // Otherwise, an empty column would match a misspelt path.
    const unknown = pairs.filter(({ path }) => !paths.has(path));
    if (result.totals.compared > 0 && unknown.length > 0) {
      const names = unknown.map(({ path }) => path).join(', ');
      throw usageError(`--compare: no event has ${names}, so nothing was compared with it. Check the path.`);
    }
    return result.agree && !isEmptyComparison(result, comparesValues) ? EXIT.good : EXIT.failed;
  } finally {
    progress.clear();
    file.close();
    await inbox.close();
  }
}

interface Entry {
  readonly id: string;
  readonly createdAt: string | undefined;
  readonly amount: string | undefined;
  readonly texts: ReadonlyMap<string, string>;
}

async function* readEntries(
  file: LedgerFile,
  flags: ReconcileFlags,
  columns: readonly string[],
): AsyncGenerator<Entry, void, undefined> {
  for await (const row of file.rows) yield readEntry(row, flags, columns);
}

function readEntry({ line, values }: LedgerRow, flags: ReconcileFlags, columns: readonly string[]): Entry {
  const texts = new Map(columns.map((column, index) => [column, values[index] ?? '']));
  const wrong = (column: string, what: string) =>
    usageError(`--ledger ${flags.ledger}, line ${line}: the column ${toPlain(column)} ${what}`);
  const { idColumn, timeColumn, amountColumn } = flags;

  const id = texts.get(idColumn) ?? '';
  if (id === '') throw wrong(idColumn, 'is empty. Each row needs an event id.');
  const createdAt = timeColumn === undefined ? undefined : texts.get(timeColumn);
  if (timeColumn !== undefined && !isDateTime(createdAt)) {
    throw wrong(
      timeColumn,
      'is not a date and time with a UTC offset. Write it as 2026-01-31T12:00:00Z or 2026-01-31T13:00:00+01:00.',
    );
  }
  const amount = amountColumn === undefined ? undefined : normalizeAmount(texts.get(amountColumn));
  if (amountColumn !== undefined && amount === undefined) {
    throw wrong(
      amountColumn,
      'is not a decimal number such as 10.50. Write it without an exponent, separators or a currency.',
    );
  }
  return { id, createdAt, amount, texts };
}

/** The text in the ledger's column must equal the text at the event's path. */
interface Pair {
  readonly column: string;
  readonly path: string;
}

function parsePair(value: string): Pair {
  const at = value.lastIndexOf('=');
  if (at > 0 && at < value.length - 1) return { column: value.slice(0, at), path: value.slice(at + 1) };
  throw usageError('--compare needs a column and a path, such as --compare chain=payload.chain.');
}

function compareEntry(
  { amount, texts }: Entry,
  event: UnknownEvent,
  { amountField, pairs }: { readonly amountField: string; readonly pairs: readonly Pair[] },
): readonly string[] {
  const differences: string[] = [];
  if (amount !== undefined) {
    const expected = normalizeAmount(valueAt(event, amountField));
    if (expected === undefined)
      differences.push(`The event has no decimal string at ${amountField}; the ledger has ${amount}.`);
    else if (expected !== amount)
      differences.push(`The amount is ${amount} in the ledger and ${expected} in the event.`);
  }
  for (const { column, path } of pairs) {
    const [booked, expected] = [texts.get(column) ?? '', textAt(event, path) ?? ''];
    if (booked !== expected)
      differences.push(
        `${column} is ${JSON.stringify(booked)} in the ledger, and ${path} is ${JSON.stringify(expected)} in the event.`,
      );
  }
  return differences;
}

/** Returns a string unchanged and any other value as JSON. */
function textAt(event: UnknownEvent, path: string): string | undefined {
  const value = valueAt(event, path);
  if (value === undefined || value === null) return undefined;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function valueAt(event: UnknownEvent, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>(
      (value, name) => (isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined),
      event,
    );
}

function parseDelimiter(value: string): string {
  const delimiter = value === '\\t' ? '\t' : value;
  if (delimiter.length === 1 && !/["\r\n]/.test(delimiter)) return delimiter;
  throw new InvalidArgumentError('Pass a single character, such as ; or \\t.');
}

/** Progress through the ledger is measured in bytes. */
function createProgress(printer: Printer, file: LedgerFile) {
  let bar: Progress | undefined;
  let [label, last] = ['', 0];
  return {
    show({ step, done, total }: ReconcileProgress): void {
      const all = step === 'ledger' ? file.sizeBytes : (total ?? done);
      if (label !== step || last !== all) {
        bar = printer.progress(step === 'findings' ? 'compare' : step, all);
      }
      [label, last] = [step, all];
      bar?.show(step === 'ledger' ? file.readBytes() : done);
    },
    clear: () => bar?.clear(),
  };
}

/** The maximum number of findings per kind in text output. JSON and CSV have no maximum. */
const MAX_SHOWN = 20;

const CSV_COLUMNS = ['kind', 'id', 'type', 'created_at', 'state', 'entries', 'detail'];

function createReport(
  printer: Printer,
  { csv, comparesValues }: { readonly csv: boolean; readonly comparesValues: boolean },
) {
  const shown = new Map<string, number>();
  if (csv) printer.print({ text: { whole: CSV_COLUMNS.join(',') }, data: null });
  return {
    add(finding: Finding): void {
      const { kind, id, type, createdAt, state, entries, detail } = finding;
      if (csv) {
        const cells = [kind, id, type, createdAt, state, entries, detail];
        printer.print({ text: { whole: cells.map(toCsv).join(',') }, data: null });
        return;
      }
      const count = (shown.get(kind) ?? 0) + 1;
      shown.set(kind, count);
      if (!printer.json && count > MAX_SHOWN) return;
      const words = [printer.paint.bad(kind.padEnd(11)), toPlain(id), toPlain(type ?? ''), createdAt ?? ''];
      const text = [{ whole: words.filter(Boolean).join('  ') }, `             ${toPlain(detail)}`];
      printer.print({ text, data: { finding } });
    },
    end(result: ReconcileResult): void {
      const isEmpty = isEmptyComparison(result, comparesValues);
      if (csv) {
        printer.note(isEmpty ? NOTHING : result.diagnosis);
        return;
      }
      if (!printer.json) {
        const more = [...shown].filter(([, count]) => count > MAX_SHOWN);
        for (const [kind, count] of more)
          printer.note(
            `${count - MAX_SHOWN} more ${kind} are not shown; --json and --csv print all of them.`,
          );
      }
      printer.print({
        text: toText(result, { paint: printer.paint, comparesValues }),
        data: { ...result, agree: result.agree && !isEmpty },
      });
    },
  };
}

function toText(
  result: ReconcileResult,
  { paint: { good, bad }, comparesValues }: { readonly paint: Paint; readonly comparesValues: boolean },
): readonly Text[] {
  const { agree, complete, totals, problems, daily, requests } = result;
  const diagnosis = toPlain(result.diagnosis);
  const hasFinding = Object.values(result.findings).some(({ count }) => count > 0);
  return [
    ...(daily === null ? [] : [{ whole: toDailyTable(daily) }, '']),
    `list        ${countOf(totals.listed, 'event')} in the span, from ${countOf(requests, 'request')}, ${complete ? good('complete') : bad('not proven complete')}`,
    `inbox       ${countOf(totals.inbox, 'event')} in the span${totals.parked > 0 ? `, ${totals.parked} parked` : ''}`,
    `ledger      ${countEntries(totals.entries)} in the span, ${totals.outside} outside`,
    comparesValues
      ? `compared    ${countEntries(totals.compared)} with ${totals.compared === 1 ? 'its event' : 'their events'}`
      : 'compared    only ids; pass --amount-column or --compare to compare values',
    ...problems.map(({ code, message, id }) =>
      toPlain(`problem     ${code}${id ? ` ${id}` : ''}: ${message}`),
    ),
    toVerdict(),
  ];

  function toVerdict(): string {
    if (isEmptyComparison(result, comparesValues)) return `${bad('not shown')}   ${NOTHING}`;
    if (agree) return `${good('agree')}       ${diagnosis}`;
    return `${bad(hasFinding ? 'differ' : 'not shown')}   ${hasFinding ? '   ' : ''}${diagnosis}`;
  }
}

/** If there is nothing to compare, agreement proves nothing. */
function isEmptyComparison({ agree, totals }: ReconcileResult, comparesValues: boolean): boolean {
  const isNothingKnown = totals.listed === 0 && totals.inbox === 0 && totals.entries === 0;
  return agree && (isNothingKnown || (comparesValues && totals.compared === 0));
}

const NOTHING =
  'Nothing was compared: the span has no events, or the ledger has no entries for them. Check --since, --until and the ledger file.';

function countEntries(count: number): string {
  return count === 1 ? '1 entry' : `${count} entries`;
}

function toDailyTable(daily: readonly DailyTotal[]): string {
  const columns = ['date', 'type', 'events', 'entries', 'currency', 'event amount', 'entry amount'];
  const rows = daily.map(({ date, type, events, entries, currency, eventAmount, entryAmount }) => [
    date,
    type,
    String(events),
    String(entries),
    currency ?? '',
    eventAmount ?? '',
    entryAmount ?? '',
  ]);
  return toTable(columns, rows);
}

function toCsv(value: string | number | null): string {
  const text = toPlain(String(value ?? ''));
  return /[",;]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
