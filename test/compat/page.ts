/** docs/compatibility.md: the page as a text, and its rows. */
import type { Result, Subject } from './results.js';

/** One row: a contract that passed on one line of versions. */
export interface Row {
  readonly kind: Subject['kind'];
  readonly what: string;
  readonly packageName: string;
  /** The first number of the version; two, if the first is 0. */
  readonly version: string;
  readonly contract: string;
  /** Runtimes with the first number of their version. */
  readonly runtimes: readonly string[];
}

const TITLES: Readonly<Record<Subject['kind'], string>> = {
  runtime: 'Runtimes',
  framework: 'Frameworks',
  inbox: 'Inboxes',
  queue: 'Queues',
};

/** The part of a version that a release without breaking changes keeps. */
export function lineOf(version: string): string {
  return version.replace(/^(0\.\d+|[1-9]\d*).*$/, '$1');
}

/** Combines results of the same contract and line of versions, in the order of the page. */
export function rowsOf(results: readonly Result[]): readonly Row[] {
  const rows = new Map<string, Row>();
  for (const { kind, what, packageName, version, contract, runtime } of results) {
    const [name = '', number = ''] = runtime.split(' ');
    const on = kind === 'runtime' ? [] : [`${name} ${lineOf(number)}`];
    const row = { kind, what, packageName, version: lineOf(version), contract };
    const key = JSON.stringify(row);
    const runtimes = new Set([...(rows.get(key)?.runtimes ?? []), ...on]);
    rows.set(key, { ...row, runtimes: [...runtimes].sort() });
  }
  const order = (row: Row) => [row.what, row.version.padStart(8), row.contract].join('\n').toLowerCase();
  return [...rows.values()].sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

/** The page with these rows. */
export function renderPage(rows: readonly Row[]): string {
  return [INTRODUCTION, ...Object.keys(TITLES).map((kind) => section(kind as Row['kind'], rows))].join('\n');
}

function section(kind: Row['kind'], rows: readonly Row[]): string {
  const columns = kind === 'runtime' ? ['', 'version', 'suite'] : ['', 'package', 'version', 'suite', 'on'];
  const lines = rows.filter((row) => row.kind === kind).map(renderRow);
  return [
    `## ${TITLES[kind]}\n`,
    `| ${columns.join(' | ')} |`,
    `| ${columns.map(() => '---').join(' | ')} |`,
    ...lines,
    '',
  ].join('\n');
}

/** A row as a line of its table. */
export function renderRow({ kind, what, packageName, version, contract, runtimes }: Row): string {
  const cells =
    kind === 'runtime'
      ? [what, version, `\`${contract}\``]
      : [
          what,
          packageName === '' ? '–' : `\`${packageName}\``,
          version === '' ? '–' : version,
          `\`${contract}\``,
          runtimes.join(', '),
        ];
  return `| ${cells.join(' | ')} |`;
}

/** The rows of a page. */
export function parsePage(page: string): readonly Row[] {
  return Object.entries(TITLES).flatMap(([kind, title]) => {
    const text = page.split(`\n## ${title}\n`)[1]?.split('\n## ')[0] ?? '';
    const lines = text.split('\n').filter((line) => line.startsWith('| ') && !/^\| +(\||---)/.test(line));
    return lines.map((line): Row => {
      const cells = line
        .slice(2, -2)
        .split(' | ')
        .map((cell) => cell.replaceAll('`', '').replace('–', ''));
      const [what = '', second = '', third = '', fourth = '', runtimes = ''] = cells;
      return kind === 'runtime'
        ? { kind, what, packageName: '', version: second, contract: third, runtimes: [] }
        : {
            ...{ kind: kind as Row['kind'], what, packageName: second, version: third, contract: fourth },
            runtimes: runtimes.split(', '),
          };
    });
  });
}

const INTRODUCTION = `# Compatibility

Every row of these tables was run: continuous integration runs each suite, records what passed with which version, and fails
if a row of this page was not run on the same commit. The page is generated from these records by \`npm run compat:table\`.

- A version is the first number of a release (two numbers below 1). Of each, the newest release is run. \`–\` means that it is a
  part of the runtime.
- A suite is that of \`stablehooks-kit/conformance\`, whole: \`adapterContract\`, \`inboxContract\`, \`inboxTransactionContract\`,
  \`transactionContract\` or \`queueContract\`; see [Testing](testing.md#conformance-suites). Where the server of a runtime or a
  framework itself decides some cases of \`adapterContract\` before the adapter can, these are left out.
- Runtimes, frameworks and what runs on another runtime than Node 20 run the packed package; the other rows run its sources.
  Databases and Redis are real servers on the same machine; Neon's driver speaks to a plain Postgres, and Upstash's client
  to its REST interface in front of a Redis.

better-sqlite3 13 and pg-boss 11 and 12 need Node 22 or later. For Node 20, use \`libsql\` and pg-boss 10.
`;
