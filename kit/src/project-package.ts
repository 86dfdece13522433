/** Packages of the project at hand: drivers that the user has installed, and this package has not. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { usageError } from './failure.js';

/**
 * Imports the first of these packages that is installed where the command is run. Its shape is the caller's
 * to know, as it is of the package's own documentation.
 *
 * @throws {CommandError} exit 2, saying what to install.
 */
export async function importFromProject<Shapes extends Readonly<Record<string, unknown>>>(
  names: readonly (keyof Shapes & string)[],
  { why }: { readonly why: string },
): Promise<Partial<Shapes>> {
  const project = createRequire(join(process.cwd(), 'package.json'));
  for (const name of names) {
    const file = resolve(project, name);
    if (file === undefined) continue;
    const { default: main } = (await import(pathToFileURL(file).href)) as { readonly default: unknown };
    return { [name]: main } as Partial<Shapes>;
  }
  throw usageError(
    `${why} Run \`npm install ${names[0]}\` here${names.length > 1 ? ` (or ${names.slice(1).join(', ')})` : ''}.`,
  );
}

function resolve(project: NodeJS.Require, name: string): string | undefined {
  try {
    return project.resolve(name);
  } catch {
    return undefined;
  }
}
