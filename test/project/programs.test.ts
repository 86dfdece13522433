/** The whole programs of `examples`, and the programs of README and docs: what users copy is right beside every other piece. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { blocksOf, squeeze } from './markdown.js';
import { filesBelow, manifest, root, textOf } from './source.js';

const pages = ['README.md', 'AGENTS.md', 'kit/README.md', ...filesIn('docs', '.md')];
const programs = readdirSync(join(root, 'examples'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

function filesIn(folder: string, end: string): readonly string[] {
  const names = readdirSync(join(root, folder)).filter((name) => name.endsWith(end));
  return names.map((name) => `${folder}/${name}`);
}

/** The modules of a program, without what running it leaves behind. */
const modulesOf = (program: string) =>
  filesBelow(`examples/${program}`).filter(
    (path) => /\.(?:ts|tsx|mjs)$/.test(path) && !/node_modules|generated|\.next|\/dist\/|\.d\.ts$/.test(path),
  );

/** Every program that a user may copy, as one text each. */
const copied: readonly (readonly [name: string, text: string])[] = [
  ...programs.map((name) => [`examples/${name}`, modulesOf(name).map(textOf).join('\n')] as const),
  ...filesIn('examples', '.ts').map((path) => [path, textOf(path)] as const),
  ...pages.flatMap((page) =>
    blocksOf(textOf(page), 'ts').map((text, index) => [`${page}, block ${index + 1}`, text] as const),
  ),
];

test.each([
  ['docs/guide.md', 'express-sqlite/server.ts'],
  ['docs/guide.md', 'express-sqlite/handlers.ts'],
  ['docs/frameworks.md', 'next-postgres/lib/receiver.ts'],
  ['docs/frameworks.md', 'next-postgres/app/hooks/route.ts'],
  ['docs/catch-up.md', 'next-postgres/app/cron/route.ts'],
  ['docs/nestjs.md', 'nest-prisma/src/main.ts'],
  ['docs/nestjs.md', 'nest-prisma/src/database.ts'],
  ['docs/nestjs.md', 'nest-prisma/src/movements.ts'],
  ['docs/nestjs.md', 'nest-prisma/src/catch-up.ts'],
  ['docs/nestjs.md', 'nest-prisma/migrate.ts'],
  ['docs/reconcile.md', 'reconcile-nightly/job.ts'],
  ['docs/serverless.md', 'lambda-postgres/hooks.ts'],
  ['docs/serverless.md', 'next-postgres/app/hooks/route.ts'],
  ['docs/serverless.md', 'next-postgres/app/cron/route.ts'],
])('%s shows examples/%s', (page, file) => {
  expect(blocksOf(textOf(page), 'ts').map(squeeze)).toContain(squeeze(textOf(`examples/${file}`)));
});

describe('a program that polls, or that runs in more than one process', () => {
  /** A poller, a cron route, a queue, and frameworks that start several processes or bundles. */
  const SHARES =
    /\b(?:createPoller|toCronRoute|toNextRoute|toNextApiRoute|toLambdaHandler|pgBossQueue|bullMqQueue)\(/;
  const RECEIVES = /createReceiver\(|StablehooksModule\.forRoot/;
  const DURABLE = /\b(?:sqlite|postgres|mysql|redis|durableObject)Inbox\(/;
  const sharing = copied.filter(([, text]) => SHARES.test(text) && RECEIVES.test(text));

  test.each(sharing)('%s has a durable inbox, and none in memory', (_name, text) => {
    expect(text).toMatch(DURABLE);
    expect(text).not.toContain('memoryInbox(');
  });

  test('there are some', () => {
    expect(sharing.length).toBeGreaterThan(programs.length);
  });
});

test('no program has an empty list of handlers: it would mark every event as ignored', () => {
  expect(copied.filter(([, text]) => /handlers: \{\}/.test(text)).map(([name]) => name)).toEqual([]);
});

test('programs, docs and tools agree on the names of variables', () => {
  const others = /\b(?:WEBHOOK_SECRET|SERVICE_URL|SERVICE_TOKEN|API_TOKEN|(?<!STABLEHOOKS_)BASE_URL)\b/;
  const texts = [
    ...copied,
    ...programs.map((name) => [name, textOf(`examples/${name}/.env.example`)] as const),
  ];
  expect(texts.filter(([, text]) => others.test(text)).map(([name]) => name)).toEqual([]);
});

test('the kit is installed with the app: its commands run in production', () => {
  const texts = [...pages, ...programs.map((name) => `examples/${name}/README.md`)];
  expect(texts.filter((page) => /--save-dev\b.*stablehooks-kit/.test(textOf(page)))).toEqual([]);
});

describe.each(programs)('examples/%s', (program) => {
  const { scripts, dependencies } = JSON.parse(textOf(`examples/${program}/package.json`)) as {
    readonly scripts: Readonly<Record<string, string>>;
    readonly dependencies: Readonly<Record<string, string>>;
  };

  test('has at most 90 lines of code without its handlers', () => {
    // One form of the payout at a time; the bank is the business, or another program.
    const business = /handlers\.ts$|movements\.ts$|payout\/(?:step|bank|bank-server)\.ts$/;
    const lines = modulesOf(program)
      .filter((path) => !business.test(path))
      .flatMap((path) => textOf(path).split('\n'))
      .filter((line) => !/^\s*(?:\/\/|\/\*|\*|$)/.test(line));
    expect(lines.length).toBeLessThanOrEqual(90);
  });

  test('depends on this version of both packages, starts the sandbox and itself, and has the variables of both', () => {
    for (const name of ['stablehooks', 'stablehooks-kit'])
      expect(dependencies[name]).toBe(`^${manifest.version}`);
    expect(scripts).toMatchObject({ sandbox: expect.any(String), dev: expect.any(String) });
    expect(textOf(`examples/${program}/.env.example`)).toMatch(
      /^STABLEHOOKS_BASE_URL=\S+\nSTABLEHOOKS_TOKEN=\S+\nSTABLEHOOKS_SECRET=\S+$/m,
    );
  });

  test('has a README of at most 25 lines, whose npm scripts exist', () => {
    const readme = textOf(`examples/${program}/README.md`);
    expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(25);
    const named = [...readme.matchAll(/npm run (?:--silent )?([\w:-]+)/g)].map(([, name = '']) => name);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });

  test('shuts down when it is told to, if it is a server', () => {
    const text = modulesOf(program).map(textOf).join('\n');
    if (/\.listen\(/.test(text) && !program.startsWith('lambda'))
      expect(text).toMatch(/SIGTERM|enableShutdownHooks/);
  });
});
