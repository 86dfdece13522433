import { slugOf } from '../../site/slug.js';

export function blocksOf(markdown: string, language: string): readonly string[] {
  return [...markdown.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
    .filter(([, name]) => name === language)
    .map(([, , text = '']) => text);
}

/** The text below a heading, up to the next heading of any level. */
export function sectionOf(markdown: string, heading: string): string {
  const sections = markdown.split(/^#+ /m);
  const found = sections.find((section) => section.split('\n')[0] === heading);
  if (found === undefined) throw new Error(`There is no heading "${heading}".`);
  return found;
}

/** Code without its comments and its line breaks: the narrow blocks of the docs break lines where the examples do not. */
export function squeeze(code: string): string {
  return code
    .replaceAll(/\/\*\*[\s\S]*?\*\/|(?<=^|\s)\/\/ .*$/gm, '')
    .replaceAll(/\s+/g, '')
    .replaceAll(/[,;](?=[)\]}])/g, '');
}

const withoutBlocks = (markdown: string) => markdown.replaceAll(/^```[\s\S]*?^```$/gm, '');

export function linksOf(markdown: string): readonly string[] {
  return [...withoutBlocks(markdown).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = '']) => link)
    .filter((link) => !/^[a-z]+:/.test(link));
}

/** The anchors of a page's headings, as GitHub and npm write them. */
export function headingsOf(markdown: string): readonly string[] {
  return [...withoutBlocks(markdown).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => slugOf(heading));
}
