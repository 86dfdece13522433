/** Reading what a flag names: a file, or `-` for standard input. */
import { readFile } from 'node:fs/promises';
import { usageError } from './failure.js';

/** Where a file comes from, for the message. */
export interface InputSource {
  readonly flag: string;
}

/** The flag that standard input was read for: there is one, and it comes once. */
let stdinReader: string | undefined;

/**
 * Reads the bytes of a file, or of standard input when it is `-`.
 *
 * @throws {CommandError} exit 2, naming the flag and the path.
 */
export async function readInput(path: string, { flag }: InputSource): Promise<Uint8Array> {
  if (path === '-') {
    if (stdinReader !== undefined)
      throw usageError(`${flag} -: standard input is read for ${stdinReader} already. Pass a file.`);
    stdinReader = flag;
  }
  try {
    return await (path === '-' ? readStdin() : readFile(path));
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    throw usageError(`${flag} ${path}: ${REASONS[String(code)] ?? 'the file cannot be read'}.`, { cause });
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file; check the path',
  EISDIR: 'this is a folder, and a file is needed',
  EACCES: 'this user may not read it; check its permissions',
};

async function readStdin(): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of process.stdin) pieces.push(piece as Uint8Array);
  return Buffer.concat(pieces);
}

/**
 * Reads a file of JSON.
 *
 * @throws {CommandError} exit 2 when it cannot be read or is not JSON; says where, never what it holds.
 */
export async function readJson(path: string, source: InputSource): Promise<unknown> {
  const bytes = await readInput(path, source);
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw usageError(`${source.flag} ${path}: the file is not JSON. Check it with \`jq . ${path}\`.`);
  }
}
