/**
 * Collects the Markdown pages of the site in `pages`: those of the repository, and a reference with one page for each
 * public subpath of both packages, generated from the declarations that they ship.
 */
import { readdirSync } from 'node:fs';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { Application, type TypeDocOptions } from 'typedoc';
import type { PluginOptions } from 'typedoc-plugin-markdown';
import { entries, root } from './entries.js';

const out = join(root, 'site/pages');

await rm(out, { recursive: true, force: true });
for (const path of [
  ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE'],
  ...['docs', 'AGENTS.md', 'llms.txt', 'openapi.json', 'src/README.md'],
]) {
  await cp(join(root, path), join(out, path), { recursive: true });
}
await cp(join(root, 'site/index.md'), join(out, 'index.md'));
// The folder itself, which readers type.
await cp(join(root, 'site/docs.md'), join(out, 'docs/index.md'));
await cp(join(root, 'site/public'), join(out, 'public'), { recursive: true });
await writeFile(join(out, 'programs.md'), renderPrograms());
await writeFile(join(out, 'llms-full.txt'), await joinPages());
for (const page of ['index.md', 'README.md', 'docs/guide.md', 'docs/exactly-once.md']) {
  const text = await readFile(join(out, page), 'utf8');
  // A block that imports its neighbours is compiled in `examples`.
  const marked = text.replaceAll(/^```ts\n([\s\S]*?)^```$/gm, (block, code: string) =>
    / from '\.\.?\//.test(code) ? block : block.replace('```ts', '```ts twoslash'),
  );
  await writeFile(join(out, page), marked);
}

/** A page with a tab for each file of each program in `examples`. VitePress includes the files themselves. */
function renderPrograms(): string {
  const titles: Readonly<Record<string, string>> = {
    'express-sqlite': 'Express, SQLite',
    'express-postgres': 'Express, Postgres, Drizzle',
    'fastify-postgres': 'Fastify, Postgres',
    'next-postgres': 'Next, Postgres, Vercel',
    'nest-prisma': 'NestJS, Postgres, Prisma',
    'hono-durable-object': 'Hono, Cloudflare Workers, Durable Object',
    'lambda-postgres': 'AWS Lambda, Postgres',
    payout: 'A payout with a step',
    rotation: 'Rotate a secret',
    'reconcile-nightly': 'Compare the books at night',
  };
  const sections = Object.entries(titles).map(([program, title]) => {
    const folder = join(root, 'examples', program);
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.(?:ts|tsx|mjs|prisma|jsonc)$/.test(path))
      .filter((path) => !/node_modules|generated|\.next|(?:^|\/)dist\/|\.d\.ts$/.test(path))
      .sort((a, b) => placeOf(a) - placeOf(b) || a.localeCompare(b));
    const tabs = files.map((path) => `<<< @/../../examples/${program}/${path} [${path}]`);
    return [`## ${title}`, ['::: code-group', ...tabs, ':::'].join('\n\n')].join('\n\n');
  });
  return `---
search: false
---

# Complete programs

Copy a program for your framework and database. \`npx stablehooks-kit init\` generates the same files, plus a script that starts the sandbox.

${sections.join('\n\n')}
`;
}

/** The business comes first, then what receives, then the rest. */
function placeOf(path: string): number {
  return /handlers|movements|step/.test(path)
    ? 0
    : /server|main|hooks|receiver|worker|module/.test(path)
      ? 1
      : 2;
}

/** The pages that llms.txt links, in its order, as one text. */
async function joinPages(): Promise<string> {
  const index = await readFile(join(root, 'llms.txt'), 'utf8');
  const paths = [...index.matchAll(/^- \[[^\]]+\]\(([^)]+\.md)\)/gm)].map(([, path = '']) => path);
  const pages = paths.map(async (path) => `<!-- ${path} -->\n\n${await readFile(join(root, path), 'utf8')}`);
  return (await Promise.all(pages)).join('\n');
}

const options: Partial<TypeDocOptions & PluginOptions> & { readonly placeInternalsInOwningModule: boolean } =
  {
    // Types that signatures name and no subpath exports, such as options, have their entries as well.
    placeInternalsInOwningModule: true,
    plugin: ['typedoc-plugin-markdown', 'typedoc-plugin-missing-exports'],
    entryPoints: entries.map(({ declarations }) => declarations),
    tsconfig: join(root, 'site/declarations.json'),
    outputs: [{ name: 'markdown', path: join(out, 'api') }],
    name: 'Reference',
    readme: 'none',
    disableSources: true,
    excludeExternals: true,
    excludeInternal: true,
    excludePrivate: true,
    validation: { notExported: true },
    groupOrder: ['Functions', 'Classes', 'Interfaces', 'Type Aliases', '*'],
    treatWarningsAsErrors: true,
    router: 'module',
    entryFileName: 'index',
    hideBreadcrumbs: true,
    hidePageHeader: true,
    useCodeBlocks: true,
    // The anchors that links use, where a heading of the same words would have another.
    useHTMLAnchors: true,
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    classPropertiesFormat: 'table',
    typeAliasPropertiesFormat: 'table',
    typeDeclarationFormat: 'table',
    tableColumnSettings: {
      hideDefaults: true,
      hideInherited: true,
      hideModifiers: true,
      hideOverrides: true,
      hideSources: true,
    },
  };
const app = await Application.bootstrapWithPlugins(options);
const project = await app.convert();
if (project === undefined) process.exit(1);
app.validate(project);

// TypeDoc names a module after its file; readers import it by its subpath.
for (const module of project.children ?? []) {
  const entry = entries.find(
    ({ declarations }) => module.name === relative(root, declarations).replace(/(\/index)?\.d\.ts$/, ''),
  );
  if (entry === undefined) throw new Error(`No subpath has the declarations of ${module.name}.`);
  module.name = entry.name;
}

await app.generateOutputs(project);
if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exit(1);
