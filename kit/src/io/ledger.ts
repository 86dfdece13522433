import { createReadStream, type Stats, statSync } from 'node:fs';
import { finished, pipeline } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import { usageError } from './errors.js';
import { toPlain } from './output.js';
import { claimStdin } from './settings.js';

/** `values` are in the order of the requested columns. */
export interface LedgerRow {
  readonly line: number;
  readonly values: readonly string[];
}

export interface LedgerFile {
  /** The modification time, because a repeated export often overwrites the file. For standard input, the current time. */
  readonly writtenAt: Date;
  /** 0 for standard input, whose size is unknown. */
  readonly sizeBytes: number;
  readBytes(): number;
  /** Can be read only once. Rejects with exit 2 if a row is not valid CSV; the message does not quote the row. */
  readonly rows: AsyncIterable<LedgerRow>;
  close(): void;
}

/** The file needs a header, and can have a byte order mark and any line endings. `-` means standard input. */
export async function openLedger(
  path: string,
  { columns, delimiter }: { readonly columns: readonly string[]; readonly delimiter: string },
): Promise<LedgerFile> {
  const { file, sizeBytes, writtenAt, readBytes } = path === '-' ? openStdin() : openFile(path);
  const parser = parse({
    bom: true,
    delimiter,
    info: true,
    skip_empty_lines: true,
    max_record_size: MAX_ROW_BYTES,
  });
  pipeline(file, parser, () => undefined);
  // Without a listener, an error between two reads would end the process. The next read rejects with that error.
  finished(parser, () => undefined);
  const records: AsyncIterator<{
    readonly record: readonly string[];
    readonly info: { readonly lines: number };
  }> = parser[Symbol.asyncIterator]();

  async function next() {
    try {
      return await records.next();
    } catch (error) {
      throw toUsageError(path, error);
    }
  }

  async function readHeader(): Promise<readonly number[]> {
    const header = await next();
    if (header.done)
      throw usageError(`--ledger ${path}: the file is empty. It needs a header row with the column names.`);
    const names = header.value.record;
    return columns.map((name) => findColumn(path, { name, names }));
  }

  const places = await readHeader().catch((error) => {
    // Unread standard input would keep the process alive.
    file.destroy();
    throw error;
  });

  return {
    writtenAt,
    sizeBytes,
    readBytes,
    close: () => file.destroy(),
    rows: readRows(),
  };

  async function* readRows(): AsyncGenerator<LedgerRow> {
    for (let step = await next(); !step.done; step = await next()) {
      const { record, info } = step.value;
      yield { line: info.lines, values: places.map((place) => record[place] ?? '') };
    }
  }
}

/** A longer row means that the file has no line endings or that a quote is never closed. */
const MAX_ROW_BYTES = 1_000_000;

function openFile(path: string) {
  const { mtime: writtenAt, size: sizeBytes } = statFile(path);
  const file = createReadStream(path);
  return { file, sizeBytes, writtenAt, readBytes: () => file.bytesRead };
}

function openStdin() {
  claimStdin('--ledger');
  return { file: process.stdin, sizeBytes: 0, writtenAt: new Date(), readBytes: () => 0 };
}

function statFile(path: string): Stats {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) throw usageError(`--ledger ${path}: the file does not exist; check the path.`);
  if (stats.isDirectory()) throw usageError(`--ledger ${path}: this is a folder, not a file.`);
  return stats;
}

function findColumn(
  path: string,
  { name, names }: { readonly name: string; readonly names: readonly string[] },
): number {
  const place = names.indexOf(name);
  if (place === -1) {
    const missing = `--ledger ${path}: the column ${toPlain(name)} is missing.`;
    if (names.some((one) => /\d/.test(one))) {
      throw usageError(
        `${missing} The first row must be a header with the column names. It is not printed here because it may contain data.`,
      );
    }
    const shown = names.map((one) => toPlain(one)).join(', ');
    throw usageError(`${missing} The columns are: ${shown}. If that is a single name, pass --delimiter.`);
  }
  if (names.lastIndexOf(name) === place) return place;
  throw usageError(`--ledger ${path}: the column ${toPlain(name)} occurs twice. Rename one.`);
}

const CSV_ERRORS: Readonly<Record<string, string>> = {
  CSV_RECORD_INCONSISTENT_FIELDS_LENGTH: 'the row has more or fewer fields than the header',
  CSV_QUOTE_NOT_CLOSED: 'a quote opened before this line is never closed',
  CSV_INVALID_CLOSING_QUOTE: 'a quote is followed by other characters',
  INVALID_OPENING_QUOTE: 'a field that does not begin with a quote contains one',
  CSV_MAX_RECORD_SIZE: 'the row is longer than 1 MB; a quote may be unclosed',
};

function toUsageError(path: string, error: unknown): unknown {
  if (error instanceof CsvError) {
    const what = CSV_ERRORS[error.code] ?? 'the row is not valid CSV';
    const line = error['lines'] === undefined ? '' : `, line ${error['lines']}`;
    return usageError(`--ledger ${path}${line}: ${what}. Check the file and --delimiter.`, { cause: error });
  }
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EACCES') return usageError(`--ledger ${path}: you do not have permission to read it.`);
  return error;
}
