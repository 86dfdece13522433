/** Settings: by flag, then by environment; secrets only by file or environment, because `ps` shows flags. */
import { SIGNATURE_HEADER } from '../core/signature.js';
import type { SignatureEncoding } from '../core/signature-encoding.js';
import { usageError } from './failure.js';
import { readInput } from './input-file.js';

/** The flags that settings are read from; a command has those that it needs. */
export interface SettingFlags {
  readonly baseUrl?: string;
  readonly tokenFile?: string;
  readonly secretFile?: string;
  readonly encoding?: SignatureEncoding;
  readonly header?: string;
  readonly prefix?: string;
}

/** Reads each setting when it is asked for; what is missing is a {@link CommandError} with exit 2. */
export interface Settings {
  /** The service's base URL, without a slash at its end. */
  baseUrl(): string;
  /** The bearer token. */
  token(): Promise<string>;
  /** The webhook secret. */
  secret(): Promise<string>;
  /** How signatures are written, and the header that carries them. */
  readonly signature: {
    readonly header: string;
    readonly encoding: SignatureEncoding | undefined;
    readonly prefix: string;
  };
}

/** Makes the reader. */
export function createSettings(
  flags: SettingFlags,
  { env }: { readonly env: Readonly<Record<string, string | undefined>> },
): Settings {
  async function hidden(name: string, file: { readonly flag: string; readonly path: string | undefined }) {
    const value =
      file.path === undefined
        ? env[name]
        : // Editors and `echo` end a file with a newline that nobody means.
          new TextDecoder().decode(await readInput(file.path, file)).replace(/\r?\n$/, '');
    if (value) return value;
    const where =
      file.path === undefined
        ? `Set ${name}, or pass ${file.flag} FILE`
        : `${file.flag} ${file.path} is empty`;
    throw usageError(
      `This needs the ${file.flag === '--token-file' ? 'access token' : 'webhook secret'}. ${where}.`,
    );
  }

  return {
    baseUrl() {
      const text = flags.baseUrl ?? env['STABLEHOOKS_BASE_URL'];
      if (!text)
        throw usageError(
          'This needs the base URL of the service. Set STABLEHOOKS_BASE_URL, or pass --base-url URL.',
        );
      return parseUrl(text, { name: flags.baseUrl ? '--base-url' : 'STABLEHOOKS_BASE_URL' }).replace(
        /\/+$/,
        '',
      );
    },
    async token() {
      const token = await hidden('STABLEHOOKS_TOKEN', { flag: '--token-file', path: flags.tokenFile });
      // A header cannot carry these, and fetch would quote the token in its error.
      if (/[^\x21-\x7e]/.test(token)) {
        throw usageError(
          'The access token holds a space, a line break or a letter that no header carries. Check how it was pasted.',
        );
      }
      return token;
    },
    secret: () => hidden('STABLEHOOKS_SECRET', { flag: '--secret-file', path: flags.secretFile }),
    signature: {
      header: flags.header ?? SIGNATURE_HEADER,
      encoding: flags.encoding,
      prefix: flags.prefix ?? '',
    },
  };
}

/**
 * Checks that a text is an HTTP URL, and gives it back as it is.
 *
 * @throws {CommandError} exit 2, naming the setting.
 */
export function parseUrl(text: string, { name }: { readonly name: string }): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return text;
  throw usageError(`${name} must be a URL such as http://localhost:3000/hooks.`);
}
