/**
 * Completes `dist/cjs`, the same sources as CommonJS, after tsc has written its code: adds the declarations of `dist`
 * and a package.json. Without that file, Node and TypeScript take the folder for ES modules.
 */
import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const modules = join(root, 'dist');
const commonjs = join(modules, 'cjs');

const declarations = (await readdir(modules, { recursive: true })).filter(
  (path) => path.endsWith('.d.ts') && !path.startsWith('cjs'),
);
await Promise.all(declarations.map((path) => copyFile(join(modules, path), join(commonjs, path))));

// Bundlers read `sideEffects`, and everything resolves `#hmac`, in the package.json that is nearest to a file.
const { sideEffects, imports } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
const manifest = JSON.stringify({ type: 'commonjs', sideEffects, imports }, null, 2);
await writeFile(join(commonjs, 'package.json'), `${manifest.replaceAll('./dist/', './')}\n`);
