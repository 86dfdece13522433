/** Settings: by flag, then by environment; secrets only by file or environment, because `ps` shows flags. */

import type { SignatureEncoding } from 'stablehooks';
import { SIGNATURE_HEADER } from 'stablehooks';
import { usageError } from './failure.js';
import { type InputSource, readInput } from './input-file.js';

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
  /** A reader of the setting; the file is read once, as standard input can be. */
  function finder({ name, flag }: Hidden, path: string | undefined): () => Promise<string | undefined> {
    let found: Promise<string | undefined> | undefined;
    const find = async () => (path === undefined ? env[name] || undefined : readHidden(path, { flag }));
    return () => {
      found ??= find();
      return found;
    };
  }

  const findToken = finder(TOKEN, flags.tokenFile);
  const findSecret = finder(SECRET, flags.secretFile);

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
      const token = demand(await findToken(), TOKEN);
      // A header cannot carry these, and fetch would quote the token in its error.
      if (!/[^\x21-\x7e]/.test(token)) return token;
      throw usageError(
        'The access token holds a space, a line break or a letter that no header carries. Check how it was pasted.',
      );
    },
    secret: async () => demand(await findSecret(), SECRET),
    given: { token: findToken, secret: findSecret },
    signature: {
      header: checkText(flags.header ?? SIGNATURE_HEADER, {
        form: HEADER_NAME,
        says: `--header must be the name of a header, such as ${SIGNATURE_HEADER}.`,
      }),
      encoding: flags.encoding,
      prefix: checkText(flags.prefix ?? '', {
        form: /^[\x20-\x7e]*$/,
        says: '--prefix must be ASCII text, such as sha256=: a header carries no other.',
      }),
    },
  };
}

async function readHidden(path: string, source: InputSource): Promise<string> {
  const bytes = await readInput(path, source);
  let text: string;
  try {
    // A letter that is replaced would make another secret of it, and nobody would know.
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw usageError(`${source.flag} ${path}: the file is not UTF-8 text. Save it as UTF-8.`);
  }
  // Editors and `echo` end a file with a newline that nobody means.
  const value = text.replace(/\r?\n$/, '');
  if (value === '') throw usageError(`${source.flag} ${path}: the file is empty.`);
  return value;
}

function demand(value: string | undefined, { what, name, flag }: Hidden): string {
  if (value !== undefined) return value;
  throw usageError(`This needs the ${what}. Set ${name}, or pass ${flag} FILE.`);
}

/** A token of RFC 9110, section 5.6.2. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function checkText(text: string, { form, says }: { readonly form: RegExp; readonly says: string }): string {
  if (form.test(text)) return text;
  throw usageError(says);
}

/**
 * Checks that a text is an HTTP URL, and gives it back as it is. It is shown, and kept as the place of a last
 * error, so it may hold no credentials.
 *
 * @throws {CommandError} exit 2, naming the setting.
 */
export function parseUrl(text: string, { name }: { readonly name: string }): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && url.username + url.password !== '') {
    throw usageError(
      `${name} holds a user or a password, which would be printed. Pass the URL without them.`,
    );
  }
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return text;
  throw usageError(`${name} must be a URL such as http://localhost:3000/hooks.`);
}
