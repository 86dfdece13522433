/** The public subpaths of both packages, by their names and their declarations. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../', import.meta.url));

/** A subpath that is code. */
export interface Entry {
  /** As it is imported, such as `stablehooks/express`. */
  readonly name: string;
  /** The path of its `.d.ts`. */
  readonly declarations: string;
}

interface Types {
  readonly types?: string;
}

export const entries: readonly Entry[] = ['.', 'kit'].flatMap((folder) => {
  const manifest: {
    readonly name: string;
    readonly exports: Readonly<Record<string, string | (Types & { readonly import?: Types })>>;
  } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
  return Object.entries(manifest.exports).flatMap(([subpath, target]) => {
    const types = typeof target === 'string' ? undefined : (target.import ?? target).types;
    if (types === undefined) return [];
    return [{ name: `${manifest.name}${subpath.slice(1)}`, declarations: join(root, folder, types) }];
  });
});
