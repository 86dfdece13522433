import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { run } from '../command.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
/** The help of a command, or of a subcommand. */
interface Help {
  /** Its name, such as `['inbox', 'list']`; empty for the program itself. */
  readonly words: readonly string[];
  readonly text: string;
  /** Its description, in one sentence. */
  readonly summary: string;
  /** In the groups of the help. */
  readonly options: readonly HelpOption[];
  /** Whether it runs itself: others only have subcommands. */
  readonly isCommand: boolean;
}

interface HelpOption {
  readonly group: string;
  readonly flag: string;
  /** The flag and its value. */
  readonly term: string;
  readonly about: string;
}

/** The entries below a heading. A description that is continued begins far to the right. */
function readEntries(block: string): readonly { readonly term: string; readonly about: string }[] {
  return block
    .replaceAll(/\n {10,}/g, ' ')
    .split('\n')
    .map((line) => /^ {2}(\S.*?)(?: {2,}(.*))?$/.exec(line) ?? [])
    .flatMap(([, term, about = '']) => (term === undefined ? [] : [{ term, about }]));
}

/** The headings above commands. */
const COMMAND_GROUPS = ['Commands', 'Develop', 'Operate', 'Other'];

/** Reads `--help` of the program, its commands and their subcommands, as a user finds them. */
async function readHelp(words: readonly string[] = []): Promise<readonly Help[]> {
  const { stdout: text, exitCode } = await run([...words, '--help']);
  if (exitCode !== 0) throw new Error(`--help of ${words.join(' ')} ended with ${exitCode}`);
  const blocks = [...text.matchAll(/^([A-Z][\w -]*):\n((?: .*\n)*)/gm)];
  const options = blocks.flatMap(([, group = '', block = '']) =>
    readEntries(block).flatMap(({ term, about }) => {
      const [flag] = /^(?:-\w, )?--[\w-]+/.exec(term) ?? [];
      return flag === undefined ? [] : [{ group, flag: flag.replace(/^-\w, /, ''), term, about }];
    }),
  );
  const [, summary = ''] = /^Usage: .*\n\n([\s\S]*?)\n\n/.exec(text) ?? [];
  const lists = blocks.filter(([, heading = '']) => COMMAND_GROUPS.includes(heading));
  const children = lists
    .flatMap(([, , list = '']) => readEntries(list))
    .map(({ term }) => term.split(' ')[0] ?? '');
  const nested = children.filter((name) => name !== 'help').map((name) => readHelp([...words, name]));
  const help = { words, text, summary: summary.replaceAll('\n', ' '), options };
  return [{ ...help, isCommand: children.length === 0 }, ...(await Promise.all(nested)).flat()];
}

/** Groups of flags that are the same in every command that has them. */
const SHARED = ['Service', 'Signature', 'Common'];

/** The page of all flags. Those that several commands share are listed once. */
async function renderFlagsPage(): Promise<string> {
  const leaves = (await pages).filter(({ isCommand }) => isCommand);
  const isOwn = ({ group, flag }: HelpOption) => !SHARED.includes(group) && flag !== '--help';
  const shared = SHARED.flatMap((name) => {
    const options = leaves.map((leaf) => leaf.options.filter(({ group }) => group === name));
    const rows = (options.find(({ length }) => length > 0) ?? []).map(({ term, about }) => [
      `\`${term}\``,
      about,
    ]);
    return [`${name}:`, '', ...toTable([['flag', 'meaning'], ...rows]), ''];
  });
  const sections = [...new Set(leaves.map(({ words }) => words[0] ?? ''))].flatMap((name) => {
    const parts = leaves.filter(({ words }) => words[0] === name);
    const about = parts.map(({ words, summary, options }) => {
      const groups = SHARED.filter((group) => options.some((option) => option.group === group));
      const names = new Intl.ListFormat('en-GB').format(groups);
      return `- \`${words.join(' ')}\`: ${summary}. Also accepts the ${names} flags.`;
    });
    const own = parts.flatMap(({ options }) => options.filter(isOwn));
    const rows = [...new Map(own.map((option) => [option.term + option.about, option])).values()].map(
      (option) => {
        const having = parts.filter(({ options }) =>
          options.some(({ term, about }) => term === option.term && about === option.about),
        );
        const names = having.map(({ words }) => words[1] ?? '').join(', ');
        return [`\`${option.term}\``, ...(parts.length > 1 ? [names] : []), option.about];
      },
    );
    const head = ['flag', ...(parts.length > 1 ? ['subcommands'] : []), 'meaning'];
    return [
      `## \`${name}\``,
      '',
      ...about,
      '',
      ...(rows.length === 0 ? [] : [...toTable([head, ...rows]), '']),
    ];
  });
  return [
    '# Flags of the command line',
    '',
    'A test generates this page from the `--help` of each command. [Command line](command-line.md) has examples.',
    '',
    '## Flags that commands share',
    '',
    ...shared,
    ...sections,
  ].join('\n');
}

function toTable([head = [], ...rows]: readonly (readonly string[])[]): readonly string[] {
  const toLine = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [toLine(head), toLine(head.map(() => '---')), ...rows.map(toLine)];
}

const pages = readHelp();

test('the help of each command fits 80 columns', async () => {
  const long = (await pages).flatMap(({ words, text }) =>
    text
      .split('\n')
      .filter((line) => line.length > 80)
      .map((line) => `${words.join(' ')}: ${line}`),
  );
  expect(long).toEqual([]);
});

test('each command has an example in its help, and each flag a description', async () => {
  const leaves = (await pages).filter(({ text, words }) => words.length > 0 && !/^Commands:/m.test(text));
  const without = leaves.filter(({ text }) => !text.includes('\nExample'));
  expect(without.map(({ words }) => words.join(' '))).toEqual([]);
  const bare = leaves.flatMap(({ options }) => options.filter(({ about }) => about === ''));
  expect(bare).toEqual([]);
});

test('help X prints the help of a command and of a subcommand', async () => {
  for (const words of [['trigger'], ['inbox', 'run']])
    expect(await run(['help', ...words])).toEqual(await run([...words, '--help']));
});

test('docs/command-line-flags.md has the flags that --help prints', async () => {
  // `npx vitest run … -u` writes it.
  await expect(renderFlagsPage()).resolves.toMatchFileSnapshot('../../../docs/command-line-flags.md');
});

test('docs/command-line.md has a section for each command, and names only flags that exist', async () => {
  const page = await readFile(`${ROOT}docs/command-line.md`, 'utf8');
  const sections = page.split(/^## /m).map((section) => ({ section, heading: section.split('\n')[0] ?? '' }));
  const commands = (await pages).filter(({ words }) => words.length === 1);
  for (const { words } of commands) {
    const { section = '', heading = '' } =
      sections.find((each) => each.heading.includes(`\`${words[0]}\``)) ?? {};
    expect(heading, `a section on ${words[0]}`).not.toBe('');
    const about = (await pages).filter((help) => heading.includes(`\`${help.words[0]}\``));
    const known = new Set(about.flatMap(({ options }) => options.map(({ flag }) => flag)));
    // What a command prints can name flags of another one.
    const written = section.replaceAll(/^```console\n[\s\S]*?^```$/gm, (block) =>
      block.replaceAll(/^(?!\$ ).*$/gm, ''),
    );
    const named = written.match(/(?<![\w-])--[a-z][\w-]+/g) ?? [];
    const wrong = named.filter((flag) => !known.has(flag));
    expect(wrong, `flags in the section on ${words[0]}`).toEqual([]);
  }
});

test('a call without a command prints the help, and is not a success', async () => {
  for (const words of [[], ['inbox'], ['events']]) {
    const bare = await run(words);
    const help = await run([...words, '--help']);
    expect(bare.exitCode).toBe(2);
    expect(help.stdout).toContain(bare.stdout.trim().split('\n').slice(0, 8).join('\n'));
  }
});
