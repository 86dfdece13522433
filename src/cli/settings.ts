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
  /** The token and the secret where they are given; for what can do without. */
  readonly given: {
    token(): Promise<string | undefined>;
    secret(): Promise<string | undefined>;
  };
  /** How signatures are written, and the header that carries them. */
  readonly signature: {
    readonly header: string;
    readonly encoding: SignatureEncoding | undefined;
    readonly prefix: string;
  };
}

/** A setting that is never a flag's value. */
interface Hidden {
  readonly what: string;
  readonly name: string;
  readonly flag: string;
}

const TOKEN: Hidden = { what: 'access token', name: 'STABLEHOOKS_TOKEN', flag: '--token-file' };
const SECRET: Hidden = { what: 'webhook secret', name: 'STABLEHOOKS_SECRET', flag: '--secret-file' };

/** Makes the reader. */
export function createSettings(
  flags: SettingFlags,
  { env }: { readonly env: Readonly<Record<string, string | undefined>> },
): Settings {
  async function find({ name, flag }: Hidden, path: string | undefined): Promise<string | undefined> {
    if (path === undefined) return env[name] || undefined;
    // Editors and `echo` end a file with a newline that nobody means.
    const text = new TextDecoder().decode(await readInput(path, { flag })).replace(/\r?\n$/, '');
    if (text === '') throw usageError(`${flag} ${path}: the file is empty.`);
    return text;
  }

  async function need(hidden: Hidden, path: string | undefined): Promise<string> {
    const value = await find(hidden, path);
    if (value !== undefined) return value;
    throw usageError(`This needs the ${hidden.what}. Set ${hidden.name}, or pass ${hidden.flag} FILE.`);
  }

  return {
    baseUrl() {
      const text = flags.baseUrl ?? env['STABLEHOOKS_BASE_URL'];
      if (text) {
        const name = flags.baseUrl ? '--base-url' : 'STABLEHOOKS_BASE_URL';
        return parseUrl(text, { name }).replace(/\/+$/, '');
      }
      throw usageError(
        'This needs the base URL of the service. Set STABLEHOOKS_BASE_URL, or pass --base-url URL.',
      );
    },
    async token() {
      const token = await need(TOKEN, flags.tokenFile);
      // A header cannot carry these, and fetch would quote the token in its error.
      if (!/[^\x21-\x7e]/.test(token)) return token;
      throw usageError(
        'The access token holds a space, a line break or a letter that no header carries. Check how it was pasted.',
      );
    },
    secret: () => need(SECRET, flags.secretFile),
    given: {
      token: () => find(TOKEN, flags.tokenFile),
      secret: () => find(SECRET, flags.secretFile),
    },
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
