/** The site: README, docs and the reference the files of the repository. Its sidebar has the order of `llms.txt`. */
import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type DefaultTheme, defineConfig } from 'vitepress';
import { entries, root } from '../entries.js';
import { slugOf } from '../slug.js';

const index = await readFile(join(root, 'llms.txt'), 'utf8');

/** One group for each section of `llms.txt`. */
const guide: DefaultTheme.SidebarItem[] = index
  .split(/^## /m)
  .slice(1)
  .map((section) => ({
    text: section.split('\n')[0] ?? '',
    items: [...section.matchAll(/^- \[([^\]]+)\]\((\S+)\.md\)/gm)].map(([, text = '', link = '']) => ({
      text,
      link: `/${link}`,
    })),
  }));

const reference: DefaultTheme.SidebarItem[] = ['stablehooks', 'stablehooks-kit'].map((name) => ({
  text: name,
  items: entries
    .filter((entry) => entry.name.split('/')[0] === name)
    .map((entry) => ({ text: entry.name, link: `/api/${entry.name}` })),
}));

export default defineConfig({
  title: 'stablehooks',
  description: 'Receives webhooks about money: verified, typed, handled once, and complete.',
  // The path of the site on its host, such as `/stablehooks/`.
  base: process.env['SITE_BASE'] ?? '/',
  srcDir: 'pages',
  cleanUrls: true,
  // Copied below. `check.ts` looks at every link of the built site, including this one.
  ignoreDeadLinks: ['./LICENSE'],
  markdown: { anchor: { slugify: slugOf } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Quick starts', link: '/docs/frameworks' },
      { text: 'Docs', link: '/docs/guide' },
      { text: 'API', link: '/api/' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    sidebar: { '/api/': reference, '/': guide },
  },
  // Language models read pages as Markdown, and some pages link to files.
  buildEnd: ({ outDir, srcDir }) => cp(srcDir, outDir, { recursive: true }),
});
