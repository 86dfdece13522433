import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Argument, Command, Option } from 'commander';
import { canAsk } from '../io/confirm.js';
import { usageError } from '../io/errors.js';
import { EXIT, toPlain } from '../io/output.js';
import { addAction, type CommandContext } from '../io/settings.js';
import { toShellWord } from '../shell-word.js';

interface Program {
  /** The program's folder in `examples`. */
  readonly name: string;
  readonly framework: string;
  readonly database: string;
}

const PROGRAMS: readonly Program[] = [
  { name: 'express-sqlite', framework: 'express', database: 'sqlite' },
  { name: 'express-postgres', framework: 'express', database: 'postgres' },
  { name: 'fastify-postgres', framework: 'fastify', database: 'postgres' },
  { name: 'next-postgres', framework: 'next', database: 'postgres' },
  { name: 'nest-prisma', framework: 'nest', database: 'postgres' },
  { name: 'hono-durable-object', framework: 'hono', database: 'durable-object' },
  { name: 'lambda-postgres', framework: 'lambda', database: 'postgres' },
];

const TASKS = ['payout', 'rotation', 'reconcile-nightly'];

const FRAMEWORKS = [...new Set(PROGRAMS.map(({ framework }) => framework))];
const DATABASES = [...new Set(PROGRAMS.map(({ database }) => database))];

/** npm leaves `.gitignore` files out of packages. */
const GITIGNORE =
  'node_modules\n.env\n*.db*\ndist\ngenerated\n.next\n.wrangler\nworker-configuration.d.ts\nnext-env.d.ts\n';

interface InitFlags {
  readonly framework?: string;
  readonly database?: string;
  readonly example?: string;
}

export function initCommand(): Command {
  const command = new Command('init')
    .addArgument(new Argument('[folder]', 'folder to write the program to').default('.'))
    .addOption(new Option('--framework <name>', 'your framework').choices(FRAMEWORKS))
    .addOption(new Option('--database <name>', 'database of the inbox').choices(DATABASES))
    .addOption(
      new Option('--example <name>', 'program for a specific task; use it instead of the other two flags')
        .choices(TASKS)
        .conflicts(['framework', 'database']),
    );
  return addAction(command, init, ['stablehooks-kit init my-app --framework express --database sqlite']);
}

async function init({ flags, args, printer, signal }: CommandContext<InitFlags>) {
  const [folder = '.'] = args;
  const name = flags.example ?? (await choose(flags, signal));
  const source = fileURLToPath(new URL(`../programs/${name}`, import.meta.url));
  const files = (await readdir(source, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(source, join(entry.parentPath, entry.name)));
  const added = ['.env', '.gitignore'];
  await refuseFilesInTheWay(folder, [...files, ...added]);
  await cp(source, folder, { recursive: true, errorOnExist: true, force: false });
  // `.env.example` contains the values that the sandbox uses.
  await cp(join(source, '.env.example'), join(folder, '.env'), { errorOnExist: true, force: false });
  await writeFile(join(folder, '.gitignore'), GITIGNORE, { flag: 'wx' });

  const { scripts } = JSON.parse(await readFile(join(source, 'package.json'), 'utf8'));
  const enter = folder === '.' ? '' : `cd ${toShellWord(folder)} && `;
  const commands = ['sandbox', 'bank', 'dev']
    .filter((script) => script in scripts)
    .map((script) => `npm run ${script}`);
  const text = [
    `Wrote ${name} (${files.length + added.length} files). README.md lists what the program needs. Install the dependencies:`,
    '',
    `${enter}npm install`,
    '',
    'Then start the service and the app, each in its own terminal:',
    '',
    ...commands,
  ];
  printer.print({ text: text.join('\n'), data: { kind: 'init.written', name, folder, commands } });
  return EXIT.good;
}

async function choose({ framework, database }: InitFlags, signal: AbortSignal): Promise<string> {
  const chosen = framework ?? (await ask('Framework', FRAMEWORKS, signal));
  const fitting = PROGRAMS.filter((program) => program.framework === chosen);
  const databases = fitting.map((program) => program.database);
  const stored =
    database ?? (databases.length === 1 ? databases[0] : await ask('Database', databases, signal));
  const program = fitting.find((each) => each.database === stored);
  if (program !== undefined) return program.name;
  throw usageError(
    `There is no program for ${chosen} with ${stored}. Pass --database ${databases.join(' or ')}.`,
  );
}

async function ask(what: string, choices: readonly string[], signal: AbortSignal): Promise<string> {
  if (!canAsk())
    throw usageError(
      `Pass --${what.toLowerCase()}: ${choices.join(', ')}. This command asks only in a terminal.`,
    );
  const question = `${what} (${choices.join(', ')}): `;
  // With `terminal: true`, readline would handle Ctrl-C itself.
  const lines = createInterface({ input: process.stdin, terminal: false, signal });
  try {
    process.stderr.write(question);
    for await (const line of lines) {
      if (choices.includes(line.trim())) return line.trim();
      process.stderr.write(question);
    }
  } finally {
    lines.close();
  }
  signal.throwIfAborted();
  throw usageError(`Nothing was chosen. Pass --${what.toLowerCase()}: ${choices.join(', ')}.`);
}

async function refuseFilesInTheWay(folder: string, files: readonly string[]): Promise<void> {
  const names = new Set(files.map((file) => file.split(/[\\/]/)[0]));
  const present = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw usageError(`${toPlain(folder)}: this folder cannot be read (${error.code}).`);
  });
  const taken = present.filter((name) => names.has(name));
  if (taken.length > 0)
    throw usageError(
      `${toPlain(folder)} already contains ${taken.map(toPlain).join(', ')}. Choose another folder.`,
    );
}
