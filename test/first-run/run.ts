/**
 * `npm run first-run`: does what a newcomer does in an empty folder, by the README alone, up to the first typed event,
 * and prints how many commands and seconds that takes. The tarballs take the place of the names of both packages, and a free
 * port that of the README's. It fails above the limit, and when the types of the program are not narrowed.
 *
 * `-- --quick` runs the variants of continuous integration, side by side and without the limit; other words select variants by
 * their names.
 */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { report } from '../report.js';
import { freePort } from '../services/free-port.js';
import { packTarballs, type Tarballs } from '../tarball.js';
import { INIT, INIT_LIMIT_S, initRun } from './init.js';
import { paste, type Running } from './terminal.js';
import { VARIANTS, type Variant } from './variants.js';

/** How long the first typed event may take a newcomer, installs included, in seconds. */
const LIMIT_S = 180;
const HANG_S = 900;

/** How many run at once where the seconds need not be those of one newcomer alone: some download while others compile. */
const QUICK_AT_ONCE = 2;

interface Measured {
  readonly name: string;
  readonly commands: number;
  readonly seconds: number;
}

async function firstRun(variant: Variant, tarballs: Tarballs): Promise<Measured> {
  const parent = await mkdtemp(join(tmpdir(), 'first-run-'));
  // The name of the folder becomes that of the Next app.
  const cwd = join(parent, 'app');
  await mkdir(cwd);
  const port = await freePort();
  const adapted = (text: string) => withTarballs(text, tarballs).replaceAll('3000', String(port));

  const started: Running[] = [];
  let commands = 0;
  const type = (lines: string) => {
    commands += lines.trim().split('\n').length;
    const running = paste(adapted(lines), cwd);
    started.push(running);
    return running;
  };
  const succeed = async (lines: string, signal: AbortSignal) => {
    const { code, output } = await type(lines).ended(signal);
    assert.equal(code, 0, `${lines}\n${output}`);
    return output;
  };

  try {
    const startedAt = performance.now();
    const limit = AbortSignal.timeout((values.quick ? HANG_S : LIMIT_S) * 1_000);
    for (const line of variant.install) await succeed(line, limit);
    const file = join(cwd, variant.file);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, adapted(variant.program));
    if (variant.check !== undefined) await succeed(variant.check, limit);
    const server = type(variant.server);
    await server.printed(new RegExp(`https?://\\S+:${port}`), limit);
    const fired = await succeed(variant.fire, limit);
    const id = /^transfer\.settled\s+(evt_[\w-]+)/m.exec(fired)?.[1];
    assert.ok(id, fired);
    assert.match(fired, /200 handled/);
    await server.printed(new RegExp(`\\b${id}\\b`), limit);
    const seconds = (performance.now() - startedAt) / 1_000;
    if (variant.check !== undefined) await assertNarrowed(variant, { cwd, check: variant.check });
    return { name: variant.name, commands, seconds };
  } finally {
    await Promise.all(started.map((running) => running.stop()));
    await rm(parent, { recursive: true, maxRetries: 5 });
  }
}

/** A field that the event of the handler does not have is refused by the compiler, and the message names its type. */
async function assertNarrowed(
  { file, program }: Variant,
  { cwd, check }: { readonly cwd: string; readonly check: string },
): Promise<void> {
  const wrong = program.replace('event.id', 'event.identifier');
  assert.notEqual(wrong, program);
  await writeFile(join(cwd, file), wrong);
  const { code, output } = await paste(check, cwd).ended(AbortSignal.timeout(HANG_S * 1_000));
  assert.notEqual(code, 0, `${check} accepts a field that the event does not have.`);
  assert.match(output, /'identifier' does not exist on type '\w+<"transfer\.settled"/);
}

function withTarballs(text: string, { stablehooks, kit }: Tarballs): string {
  return text.replaceAll(/^npm install .*$/gm, (command) =>
    command.replaceAll(/(?<= )stablehooks(-kit)?(?= |$)/g, (_name, isKit) => (isKit ? kit : stablehooks)),
  );
}

const { values, positionals } = parseArgs({
  options: { quick: { type: 'boolean' } },
  allowPositionals: true,
});
const withInit = values.quick || positionals.length === 0 || positionals.includes('init');
const selected = VARIANTS.filter(
  ({ name, quick }) =>
    (!values.quick || quick) && (positionals.length === 0 || positionals.some((word) => name.includes(word))),
);
if (selected.length === 0 && !withInit)
  throw new Error(`The variants are init; ${VARIANTS.map(({ name }) => name).join('; ')}.`);

const tarballs = await packTarballs();
const measured: Measured[] = [];
const waiting = [...selected];
const work = async () => {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const variant = next;
    await report(variant.name, async () => {
      measured.push(await firstRun(variant, tarballs));
      return [];
    });
  }
};
try {
  // Alone, because its seconds are a promise.
  if (withInit)
    await report(INIT, async () => {
      const { seconds, commands } = await initRun(tarballs);
      measured.push({ name: INIT, commands, seconds });
      return values.quick || seconds <= INIT_LIMIT_S ? [] : [`${seconds.toFixed(0)} s are too long`];
    });
  await Promise.all(Array.from({ length: values.quick ? QUICK_AT_ONCE : 1 }, work));
} finally {
  await tarballs.remove();
}
const rows = measured.map(
  ({ name, commands, seconds }) => `| ${name} | ${commands} | ${seconds.toFixed(0)} |`,
);
const head = ['| variant | commands | seconds |', '| --- | ---: | ---: |'];
console.log(`\n${[...head, ...rows].join('\n')}`);
