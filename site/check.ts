/**
 * Checks the built site: every link leads to a file and an anchor, every export has its place in the reference, and the search
 * finds what readers look for.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import MiniSearch from 'minisearch';
import ts from 'typescript';
import { entries, root } from './entries.js';
import { searchOptions } from './search.js';
import { slugOf } from './slug.js';

const dist = join(root, 'site/.vitepress/dist');
const base = process.env['SITE_BASE'] ?? '/';

const files = new Set(
  readdirSync(dist, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(dist, join(entry.parentPath, entry.name))),
);
const pages = new Map(
  [...files]
    .filter((path) => path.endsWith('.html'))
    .map((path) => {
      const html = readFileSync(join(dist, path), 'utf8');
      return [path, { html, ids: new Set(matches(html, / id="([^"]+)"/g)) }] as const;
    }),
);

function matches(text: string, pattern: RegExp): readonly string[] {
  return [...text.matchAll(pattern)].map(([, match = '']) => match);
}

/** The file that a path of the site is served from, as static hosts do it. */
function fileOf(pathname: string): string | undefined {
  const path = decodeURIComponent(pathname.slice(base.length));
  return [path, `${path}.html`, join(path, 'index.html')].find((candidate) => files.has(candidate));
}

function deadLinksOf(path: string, html: string): readonly string[] {
  return matches(html, /<a [^>]*?href="([^"]+)"/g).filter((link) => {
    const { origin, pathname, hash } = new URL(link, `http://site${base}${path}`);
    if (origin !== 'http://site') return false;
    const file = fileOf(pathname);
    const page = pages.get(file ?? '');
    const anchor = decodeURIComponent(hash.slice(1));
    return file === undefined || (page !== undefined && anchor !== '' && !page.ids.has(anchor));
  });
}

/** The exports of a subpath that its page neither describes nor links to. */
function missingOf(program: ts.Program, name: string, declarations: string): readonly string[] {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(declarations);
  const module = source && checker.getSymbolAtLocation(source);
  const page = pages.get(`api/${name}.html`);
  if (module === undefined || page === undefined) return [`${name} has no page`];
  return checker
    .getExportsOfModule(module)
    .map((symbol) => symbol.name)
    .filter((symbol) => !page.ids.has(slugOf(symbol)))
    .map((symbol) => `${name}: ${symbol}`);
}

/** Each error code, and the section about it: its own, or one that lists it. */
function errorQueries(): readonly (readonly [code: string, hit: string])[] {
  const sections = readFileSync(join(root, 'docs/errors.md'), 'utf8').split(/^##+ /m).slice(1);
  return sections.flatMap((section) => {
    const heading = section.split('\n')[0] ?? '';
    if (/^ERR_/.test(heading)) return [[heading, `docs/errors#${slugOf(heading)}`] as const];
    const listed = matches(section, /^- .*?`(ERR_SANDBOX_\w+)`/gm);
    return listed.map((code) => [code, `docs/errors#${slugOf(heading)}`] as const);
  });
}

/** What readers type, and the page or section that is to be the first hit. */
const queries: readonly (readonly [query: string, hit: string])[] = [
  ['rotate', 'docs/secrets#rotate-a-secret'],
  ['rotate secret', 'docs/secrets#rotate-a-secret'],
  ['ngrok', 'docs/testing#real-events-on-your-machine'],
  ...errorQueries(),
];

/** The queries whose first hit is another one, in the index that the site loads. */
async function wrongHits(): Promise<readonly string[]> {
  const chunk = [...files].find((path) => path.includes('@localSearchIndexroot'));
  if (chunk === undefined) return ['the site has no search index'];
  const { default: json }: { readonly default: string } = await import(pathToFileURL(join(dist, chunk)).href);
  const index = MiniSearch.loadJSON(json, {
    fields: ['title', 'titles', 'text'],
    storeFields: ['title', 'titles'],
    searchOptions,
  });
  return queries.flatMap(([query, hit]) => {
    const found = String(index.search(query)[0]?.id).slice(base.length);
    return found === hit ? [] : [`the search for ${query} finds ${found} first, and not ${hit}`];
  });
}

const program = ts.createProgram(
  entries.map(({ declarations }) => declarations),
  { module: ts.ModuleKind.NodeNext, skipLibCheck: true },
);
const problems = [
  ...[...pages].flatMap(([path, { html }]) =>
    deadLinksOf(path, html).map((link) => `${path} links to ${link}, which does not exist`),
  ),
  ...entries.flatMap(({ name, declarations }) => missingOf(program, name, declarations)),
  ...(await wrongHits()),
  ...['index.html', 'README.html', 'docs/guide.html']
    .filter((path) => !pages.get(path)?.html.includes('twoslash-hover'))
    .map((path) => `${path} shows no types on hover`),
  ...['favicon.svg', 'og.png', 'sitemap.xml', 'llms-full.txt', '404.html', 'docs/index.html']
    .filter((path) => !files.has(path))
    .map((path) => `${path} is missing`),
];
for (const problem of problems) console.error(problem);
console.log(
  `${pages.size} pages, ${entries.length} subpaths, ${queries.length} searches, ${problems.length} problems`,
);
process.exitCode = problems.length === 0 ? 0 : 1;
