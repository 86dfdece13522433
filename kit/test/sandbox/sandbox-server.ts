import { createSandbox, type Sandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { onTestFinished } from 'vitest';
import { collectDeviations, deliveryDeviations, responseDeviations } from '../../../test/openapi/check.js';

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

/**
 * Starts a sandbox, which is closed when the test ends. The test fails if a response under `/v1` or a delivery to an
 * endpoint in this process is not as `openapi.json` describes it.
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<SandboxServer> {
  const collect = collectDeviations();
  const endpoints = options.endpoints?.map(({ fetch, ...endpoint }) =>
    fetch === undefined
      ? endpoint
      : {
          ...endpoint,
          fetch: async (request: Request) => {
            collect(`delivery to ${request.url}`, deliveryDeviations(await request.clone().text()));
            return fetch(request);
          },
        },
  );
  const sandbox = createSandbox({ seed: 1, ...options, ...(endpoints && { endpoints }) });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen(0);
  const ask = async (path: string, { method, json, body, headers }: Ask = {}): Promise<Answer> => {
    const content = json === undefined ? body : JSON.stringify(json);
    const verb = method ?? (content === undefined ? 'GET' : 'POST');
    const response = await fetch(url + path, {
      method: verb,
      ...(content === undefined ? {} : { body: content }),
      headers: {
        authorization: `Bearer ${sandbox.token}`,
        ...(content === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    });
    const text = await response.text();
    const contentType = response.headers.get('content-type');
    const isJson = /json/.test(contentType ?? '');
    // Half of a response is on purpose.
    if (path.startsWith('/v1') && options.faults?.apiMalformed === undefined) {
      const { status } = response;
      collect(
        `${verb} ${path}`,
        responseDeviations({ method: verb, url: path, status, contentType, body: text }),
      );
    }
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
