import { createSandbox, type Sandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { onTestFinished } from 'vitest';

/** One request: JSON goes in, and whatever came out goes back. */
export interface Ask {
  readonly method?: string;
  readonly json?: unknown;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  readonly text: string;
  readonly json: unknown;
}

export interface SandboxServer {
  readonly sandbox: Sandbox;
  readonly url: string;
  ask(path: string, request?: Ask): Promise<Answer>;
}

export async function startSandbox(options: SandboxOptions = {}): Promise<SandboxServer> {
  const sandbox = createSandbox({ seed: 1, ...options });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen(0);
  const ask = async (path: string, { method, json, body, headers }: Ask = {}): Promise<Answer> => {
    const content = json === undefined ? body : JSON.stringify(json);
    const response = await fetch(url + path, {
      method: method ?? (content === undefined ? 'GET' : 'POST'),
      ...(content === undefined ? {} : { body: content }),
      headers: {
        authorization: `Bearer ${sandbox.token}`,
        ...(content === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    });
    const text = await response.text();
    const isJson = /json/.test(response.headers.get('content-type') ?? '');
    return {
      status: response.status,
      statusText: response.statusText,
      headers: response.headers,
      text,
      json: isJson && text !== '' ? parse(text) : undefined,
    };
  };
  return { sandbox, url, ask };
}

/** `undefined` for JSON that is broken on purpose. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
