/** The file of `--payload`: a JSON object that events are made of. */
import { usageError } from './failure.js';
import { readJson } from './input-file.js';

/**
 * Reads it.
 *
 * @throws {CommandError} exit 2 when it cannot be read, or is no JSON object.
 */
export async function readPayload(path: string): Promise<Record<string, unknown>> {
  const value = await readJson(path, { flag: '--payload' });
  if (isObject(value)) return value;
  throw usageError(`--payload ${path}: a payload is a JSON object.`);
}

/** Whether a value of JSON is an object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
