/** The source files as the project's own tests see them: paths, text, imports, names. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Every TypeScript file below a folder of the project, as a path from its root. */
export function filesBelow(folder: string): readonly string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => !/node_modules|\.next/.test(path))
    .sort();
}

export const textOf = (path: string) => readFileSync(join(root, path), 'utf8');

export interface Import {
  readonly specifier: string;
  /** The file of the project that it names, or `undefined` for a package. */
  readonly file: string | undefined;
  readonly typeOnly: boolean;
}

export function importsOf(path: string): readonly Import[] {
  const statements = textOf(path).matchAll(
    /^(?:import|export)\s(?<type>type\s)?(?:[^'";]*?\sfrom\s)?'(?<static>[^']+)'|\bimport\('(?<dynamic>[^']+)'\)/gm,
  );
  return [...statements].map(({ groups }) => {
    const specifier = groups?.['static'] ?? groups?.['dynamic'] ?? '';
    const file = specifier.startsWith('.')
      ? relative(root, resolve(root, path, '..', specifier)).replace(/\.js$/, '.ts')
      : undefined;
    return { specifier, file, typeOnly: groups?.['type'] !== undefined };
  });
}

export function exportsOf(path: string): readonly string[] {
  const declarations = textOf(path).matchAll(
    /^export (?:declare |abstract |async )*(?:function\*?|class|interface|type|const|let) (?<name>\w+)/gm,
  );
  return [...new Set([...declarations].map(({ groups }) => groups?.['name'] ?? ''))];
}

/** The files of a subpath in one module format. */
interface Target {
  readonly types: string;
  readonly default: string;
}

export interface Manifest {
  readonly name: string;
  readonly version: string;
  /** The kit has ES modules only, which are the target itself. */
  readonly exports: Readonly<
    Record<string, { readonly import: Target; readonly require: Target } | Target | string>
  >;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
}

const { exports, ...others } = JSON.parse(textOf('package.json'));
const { './internal/hmac': _internal, ...subpaths } = exports;
/** With the public subpaths. */
export const manifest: Manifest = { ...others, exports: subpaths };
export const kitManifest: Manifest = JSON.parse(textOf('kit/package.json'));
