import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Inbox, InboxOperations } from 'stablehooks';
import { usageError } from '../errors.js';

/** An open inbox, which a command must close. */
export interface Opened extends Omit<Inbox, 'transaction'>, InboxOperations {
  close(): unknown;
  /** Whether the path still names the opened file. Missing if the place is not a file. */
  isCurrent?(): boolean;
  readonly namespace: string;
}

export interface OpenOptions {
  /** Whether to create the tables if they do not exist. */
  readonly create: boolean;
  /** Whether a Redis without any event is accepted. */
  readonly unused: boolean;
  /**
   * The namespaces to look for, in this order. A file is opened with the first namespace that it contains. A file
   * without any of them must be new.
   */
  readonly namespaces: readonly [string, ...string[]];
  /** The place as messages show it. The value of a variable is not shown, because it can contain a password. */
  readonly name: string;
}

export const CONNECT_TIMEOUT_MS = 5_000;
/** How long to wait for a response, in ms, because a connection may be lost silently. */
export const ANSWER_TIMEOUT_MS = 60_000;

/** Closes what was opened if the work fails. */
export async function closeOnError(work: Promise<unknown>, close: () => unknown): Promise<void> {
  try {
    await work;
  } catch (error) {
    await close();
    throw error;
  }
}

/** Imports the first of these packages that the project in the current folder has installed. */
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
