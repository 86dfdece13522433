/** Every test runs in continuous integration, once. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { filesBelow, manifest, root, textOf } from './source.js';

/** The scripts that .ci/run calls, by name. */
const steps = [...textOf('.ci/run').matchAll(/^step npm (?:run )?([\w:-]+)/gm)]
  .map(([, name = '']) => name)
  .filter((name) => name !== 'ci');

/** The vitest projects that a script runs. */
const projectsOf = (script: string) =>
  [...(manifest.scripts[script] ?? '').matchAll(/--project (\w+)/g)].map(([, name = '']) => name);

test('every script that .ci/run calls exists, and it calls every script of tests', () => {
  const scripts = Object.keys(manifest.scripts);
  expect(steps.filter((name) => !scripts.includes(name))).toEqual([]);
  expect(scripts.filter((name) => /^test\b/.test(name) && !steps.includes(name))).toEqual([]);
});

test('every test file is run by exactly one script that .ci/run calls', () => {
  const scriptsOf = new Map<string, Set<string>>();
  for (const { file, projectName } of listTests()) {
    const scripts = scriptsOf.get(file) ?? new Set();
    for (const step of steps) if (projectsOf(step).includes(projectName)) scripts.add(step);
    scriptsOf.set(file, scripts);
  }
  const files = [...filesBelow('test'), ...filesBelow('kit/test')].filter((path) =>
    path.endsWith('.test.ts'),
  );
  expect(files.length).toBeGreaterThan(50);
  const wrong = files.filter((path) => scriptsOf.get(path)?.size !== 1);
  expect(wrong.map((path) => `${path}: ${[...(scriptsOf.get(path) ?? [])].join(', ') || 'none'}`)).toEqual(
    [],
  );
});

/** The files of each project, as vitest itself finds them. */
function listTests(): readonly { readonly file: string; readonly projectName: string }[] {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-tests-'));
  const output = join(folder, 'files.json');
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const args = ['list', '--config', 'test/vitest.config.ts', '--filesOnly', `--json=${output}`];
  execFileSync(process.execPath, [vitest, ...args], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  const files: { readonly file: string; readonly projectName: string }[] = JSON.parse(
    readFileSync(output, 'utf8'),
  );
  rmSync(folder, { recursive: true });
  return files.map(({ file, projectName }) => ({ file: relative(root, file), projectName }));
}
