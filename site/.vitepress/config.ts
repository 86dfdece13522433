/** The site: README, docs and the reference the files of the repository. Its sidebar has the order of `llms.txt`. */
import { execFileSync } from 'node:child_process';
import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { transformerTwoslash } from '@shikijs/vitepress-twoslash';
import ts from 'typescript';
import { type DefaultTheme, defineConfig } from 'vitepress';
import { entries, root } from '../entries.js';
import { searchOptions } from '../search.js';
import { slugOf } from '../slug.js';

const index = await readFile(join(root, 'llms.txt'), 'utf8');

/** One group for each section of `llms.txt`. */
const guide: DefaultTheme.SidebarItem[] = index
  .split(/^## /m)
  .slice(1)
  .map((section) => ({
    text: section.split('\n')[0] ?? '',
    items: [
      ...[...section.matchAll(/^- \[([^\]]+)\]\((\S+)\.md\)/gm)].map(([, text = '', link = '']) => ({
        text,
        link: `/${link}`,
      })),
      ...(section.startsWith('Start') ? [{ text: 'Complete programs', link: '/programs' }] : []),
    ],
  }));

const reference: DefaultTheme.SidebarItem[] = ['stablehooks', 'stablehooks-kit'].map((name) => ({
  text: name,
  items: entries
    .filter((entry) => entry.name.split('/')[0] === name)
    .map((entry) => ({ text: entry.name, link: `/api/${entry.name}` })),
}));

// The path of the site on its host, such as `/stablehooks/`, and the host.
const { SITE_BASE: base = '/', SITE_HOST: host = 'http://localhost:4173' } = process.env;
/** The owner and name on GitHub, where a workflow builds the site. */
const { GITHUB_REPOSITORY: repository } = process.env;
const description = 'Receive payment webhooks: verified, typed, booked exactly once, and none missed.';

/** When the file in the repository was last changed: the pages of the site are copies. */
function lastChange(path: string): number | undefined {
  const time = execFileSync('git', ['log', '-1', '--format=%ct', '--', path], {
    cwd: root,
    encoding: 'utf8',
  });
  return time === '' ? undefined : Number(time) * 1_000;
}

/** Shows types on hover in the blocks that `pages.ts` marks with `twoslash`. Each costs a second. */
const typesOnHover = transformerTwoslash({
  twoslashOptions: {
    vfsRoot: root,
    compilerOptions: {
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      types: ['node'],
      skipLibCheck: true,
    },
    handbookOptions: { noErrors: true },
  },
});

export default defineConfig({
  title: 'stablehooks',
  description,
  base,
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}favicon.svg` }],
    ['meta', { property: 'og:title', content: 'stablehooks' }],
    ['meta', { property: 'og:description', content: description }],
    ['meta', { property: 'og:image', content: `${host}${base}og.png` }],
    ['meta', { name: 'twitter:card', content: 'summary_large_image' }],
  ],
  sitemap: { hostname: `${host}${base}` },
  lastUpdated: true,
  transformPageData(page) {
    const lastUpdated = lastChange(page.relativePath);
    // A page that is generated has no file to edit.
    if (lastUpdated === undefined)
      return { lastUpdated, frontmatter: { ...page.frontmatter, editLink: false } };
    return { lastUpdated };
  },
  srcDir: 'pages',
  cleanUrls: true,
  // Copied below. `check.ts` looks at every link of the built site, including this one.
  ignoreDeadLinks: ['./LICENSE'],
  markdown: { anchor: { slugify: slugOf }, languageAlias: { mjs: 'js' }, codeTransformers: [typesOnHover] },
  themeConfig: {
    logo: '/favicon.svg',
    search: { provider: 'local', options: { miniSearch: { searchOptions } } },
    outline: [2, 3],
    ...(repository !== undefined && {
      editLink: { pattern: `https://github.com/${repository}/edit/main/:path`, text: 'Edit this page' },
      socialLinks: [{ icon: 'github' as const, link: `https://github.com/${repository}` }],
    }),
    nav: [
      { text: 'Quick starts', link: '/docs/frameworks' },
      { text: 'Programs', link: '/programs' },
      { text: 'Docs', link: '/docs/guide' },
      { text: 'API', link: '/api/' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    sidebar: { '/api/': reference, '/': guide },
  },
  // Language models read pages as Markdown, and some pages link to files.
  buildEnd: ({ outDir, srcDir }) => cp(srcDir, outDir, { recursive: true }),
});
