import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Inbox, InboxOperations } from 'stablehooks';
import { usageError } from '../errors.js';

export interface Opened extends Omit<Inbox, 'transaction'>, InboxOperations {
  close(): unknown;
  /** Whether the path still names the opened file. Missing if the inbox is not a file. */
  isCurrent?(): boolean;
  readonly namespace: string;
}

export interface OpenOptions {
  readonly create: boolean;
  /** Whether to accept a Redis without any event. */
  readonly unused: boolean;
  /** The namespaces to try, in order of preference. A file that contains none of them must be new. */
  readonly namespaces: readonly [string, ...string[]];
  /** The location as messages show it. The value of a variable is not shown, because it can contain a password. */
  readonly name: string;
}

export const CONNECT_TIMEOUT_MS = 5_000;
/** Limits the wait for each response, because a connection can be lost silently. */
export const ANSWER_TIMEOUT_MS = 60_000;

export async function closeOnError(work: Promise<unknown>, close: () => unknown): Promise<void> {
  try {
    await work;
  } catch (error) {
    await close();
    throw error;
  }
}

/** Imports the first of these packages that is installed in the current folder's project. */
export async function importFromProject<Driver>(
  names: readonly string[],
  reason: string,
): Promise<{ readonly name: string; readonly driver: Driver }> {
  const project = createRequire(join(process.cwd(), 'package.json'));
  for (const name of names) {
    const file = resolvePackage(project, name);
    if (file !== undefined) return { name, driver: (await import(pathToFileURL(file).href)).default };
  }
  throw usageError(
    `${reason} Run \`npm install ${names[0]}\` here${names.length > 1 ? ` (or ${names.slice(1).join(', ')})` : ''}.`,
  );
}

function resolvePackage(project: NodeJS.Require, name: string): string | undefined {
  try {
    return project.resolve(name);
  } catch {
    return undefined;
  }
}
