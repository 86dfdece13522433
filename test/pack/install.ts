/** Packs the package, installs it into three tiny projects as a user would, and runs them. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const work = mkdtempSync(join(tmpdir(), 'stablehooks-pack-'));

/** What each project proves: a signed delivery is handled, a forged one rejected, over the public names. */
const body = (log: string) => `
const receiver = createReceiver({
  secret: 'whsec_pack',
  handlers: { 'transfer.settled': (event) => { ${log} } },
  onOutcome: () => undefined,
});
const event = { id: 'evt_1', type: 'transfer.settled', created_at: '2026-01-02T03:04:05Z', payload: { amount: '1.10' } };
const bytes = new TextEncoder().encode(JSON.stringify(event));
const deliver = async (signature${log.includes('satisfies') ? ': string' : ''}) => {
  const headers = { 'X-SERVICE-Signature': signature };
  return toFetchHandler(receiver)(new Request('http://localhost/', { method: 'POST', headers, body: bytes }));
};
const run = async () => {
  const genuine = await deliver(await sign(bytes, { secret: 'whsec_pack' }));
  const forged = await deliver('0'.repeat(64));
  console.log(genuine.status, await genuine.text(), forged.status);
};
run();
`;

const names = { esm: ['import', ' from '], cjs: ['const', ' = require('] } as const;

function imports(kind: keyof typeof names): string {
  const [word, from] = names[kind];
  const line = (what: string, subpath: string) =>
    `${word} { ${what} }${from}'${subpath}'${kind === 'cjs' ? ')' : ''};\n`;
  return line('createReceiver, sign', 'stablehooks') + line('toFetchHandler', 'stablehooks/fetch');
}

interface Project {
  readonly name: string;
  readonly type: 'module' | 'commonjs';
  readonly files: Readonly<Record<string, string>>;
  readonly compile?: boolean;
  readonly main: string;
}

const projects: readonly Project[] = [
  { name: 'esm', type: 'module', main: 'main.js', files: { 'main.js': imports('esm') + body('') } },
  { name: 'cjs', type: 'commonjs', main: 'main.js', files: { 'main.js': imports('cjs') + body('') } },
  {
    name: 'typescript',
    type: 'module',
    main: 'main.js',
    compile: true,
    files: {
      'main.ts': imports('esm') + body("event.type satisfies 'transfer.settled'"),
      // No skipLibCheck: our declarations must hold without the frameworks that a user does not have.
      'tsconfig.json': JSON.stringify({
        compilerOptions: {
          module: 'nodenext',
          target: 'es2022',
          // `await using` on a receiver names Symbol.asyncDispose.
          lib: ['es2022', 'dom', 'dom.iterable', 'esnext.disposable'],
          strict: true,
          types: [],
        },
        files: ['main.ts'],
      }),
    },
  },
];

const expected = '200 {"outcome":"handled"} 401';

try {
  const [packed] = JSON.parse(run('npm', ['pack', '--json', '--pack-destination', work], root));
  for (const project of projects) {
    const folder = join(work, project.name);
    for (const [path, text] of Object.entries({
      ...project.files,
      'package.json': JSON.stringify({ name: `try-${project.name}`, private: true, type: project.type }),
    })) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    run(
      'npm',
      ['install', '--no-audit', '--no-fund', '--prefer-offline', join(work, packed.filename)],
      folder,
    );
    if (project.compile) run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc')], folder);
    const printed = run(process.execPath, [project.main], folder).trim();
    if (printed !== expected) throw new Error(`${project.name} printed ${printed}, not ${expected}`);
    console.log(`${project.name}: ${printed}`);
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}

function run(command: string, args: readonly string[], cwd: string): string {
  return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}
