/** What ends a command early: the exit code that it means, and the one line that says what to do. */
import { CommanderError } from 'commander';
import { StablehooksError } from 'stablehooks';
import { EXIT, type ExitCode } from './exit.js';
import { adviseOn } from './system-codes.js';
import { toPlain } from './table.js';

/** A failure that a command foresaw; its message is one line that says what to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** The caller has to type or set something else. */
export function usageError(message: string, options?: ErrorOptions): CommandError {
  return new CommandError(EXIT.usage, message, options);
}

/** Something that the command needs did not answer. */
export function unreachableError(message: string, options?: ErrorOptions): CommandError {
  return new CommandError(EXIT.unreachable, message, options);
}

/** How a command ended early. */
export interface Failure {
  readonly exitCode: ExitCode;
  readonly message: string;
}

/** Finds the exit code and the one line for whatever was thrown. */
export function toFailure(thrown: unknown): Failure {
  const { exitCode, message } = judge(thrown);
  return { exitCode, message: message.replaceAll(/\s*[\r\n]+\s*/g, ' ').trim() };
}

function judge(thrown: unknown): Failure {
  if (thrown instanceof CommandError) return thrown;
  if (thrown instanceof CommanderError) return { exitCode: EXIT.usage, message: thrown.message };
  const system = errorChain(thrown).map(systemFailure).find(Boolean);
  if (system) return system;
  if (thrown instanceof StablehooksError)
    return { exitCode: codeFailure(thrown), message: apiMessage(thrown) };
  const words = thrown instanceof Error ? thrown.message : String(thrown);
  return { exitCode: EXIT.failed, message: `${words} (Not foreseen: run again with --debug and report it.)` };
}

/** The error and its causes, innermost first: the innermost knows what really happened. */
function errorChain(thrown: unknown): readonly Error[] {
  const chain: Error[] = [];
  for (let error = thrown; error instanceof Error && chain.length < 8; error = error.cause)
    chain.unshift(error);
  return chain;
}

function systemFailure(error: Error): Failure | undefined {
  const fields = error as Error & Readonly<Record<string, unknown>>;
  const known = adviseOn(fields);
  if (known === undefined) return undefined;
  const { path, address, port, hostname } = fields;
  const place = [path, hostname, address && port ? `${address}:${port}` : address].find(Boolean);
  return {
    exitCode: known.exitCode,
    message: `${place ? `${place}: ` : ''}${known.advice} (${known.name})`,
  };
}

function codeFailure(error: StablehooksError): ExitCode {
  // What a sandbox in this very process refuses was asked for by a flag.
  if (error.code === 'ERR_CONFIG_INVALID' || error.code.startsWith('ERR_SANDBOX_')) return EXIT.usage;
  if (error.code === 'ERR_API_STATUS')
    return apiStatus(error) < 500 && apiStatus(error) !== 429 ? EXIT.usage : EXIT.unreachable;
  return error.code.startsWith('ERR_API_') || error.code.endsWith('_FAILED') ? EXIT.unreachable : EXIT.failed;
}

function apiStatus(error: StablehooksError): number {
  return 'status' in error && typeof error.status === 'number' ? error.status : 500;
}

function apiMessage(error: StablehooksError): string {
  if (error.code === 'ERR_API_CONNECTION') return `${error.message} (${errorChain(error)[0]?.message})`;
  if (error.code !== 'ERR_API_STATUS') return `${error.message} (${error.code})`;
  const status = apiStatus(error);
  if (status === 401 || status === 403) {
    return `The service refused the token (${status}). Set STABLEHOOKS_TOKEN or --token-file to one that is in force at this base URL.`;
  }
  const body = 'body' in error && typeof error.body === 'string' ? error.body : '';
  return `The service answered ${status}: ${toPlain(body.trim()).slice(0, SHOWN_LENGTH) || 'nothing more'} (${error.code})`;
}

/** How much of an answer is shown: service.md does not specify errors, and a page of HTML helps nobody. */
const SHOWN_LENGTH = 400;
