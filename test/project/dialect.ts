/** Prints how often the phrasings to avoid occur in each folder, as the last step of `npm run check`. A match can be right. */
import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root, textOf } from './source.js';

/** Phrasings that make a native reader stop, such as a clause as subject or "is no event". */
const PATTERNS = [
  /(?:^|[.:*/]\s+)(?:What|Whoever|Whatever)\s+[a-z]/gm,
  /\b(?:is|are|was) no [a-z]+\b/g,
  /, too\b/g,
  /\b(?:anew|for ever|by now|by then)\b/g,
  /\bnobody\b/gi,
  /\bthat there (?:is|are) (?:not|none)\b/g,
  /\balso (?:if|when|in)\b/g,
];

/** Texts of the project by the folder that they are counted under. */
function texts(): ReadonlyMap<string, readonly string[]> {
  const counted = new Map<string, string[]>();
  for (const folder of ['src', 'kit/src', 'docs']) {
    for (const entry of readdirSync(join(root, folder), { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() || !/\.(ts|md)$/.test(entry.name)) continue;
      const path = relative(root, join(entry.parentPath, entry.name));
      const [room = ''] = relative(folder, path).split('/');
      const name = room.includes('.') ? folder : `${folder}/${room}`;
      counted.set(name, [...(counted.get(name) ?? []), path]);
    }
  }
  for (const page of ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md']) {
    counted.set(page, [page]);
  }
  return counted;
}

const rows = [...texts()].map(([name, paths]) => {
  const matches = paths.flatMap((path) => PATTERNS.flatMap((pattern) => textOf(path).match(pattern) ?? []));
  return { name, count: matches.length };
});
const total = rows.reduce((sum, { count }) => sum + count, 0);
const counts = rows.filter(({ count }) => count > 0).map(({ name, count }) => `${name} ${count}`);
console.log(`Phrasings to avoid: ${total} (${counts.join(', ')})`);
