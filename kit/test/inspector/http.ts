/** An inspector over HTTP, as a browser that was signed in sees it. */
import { request } from 'node:http';

/** An answer, with its whole body. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly text: string;
}

/** A request; `host` and the headers that browsers set themselves included, which `fetch` would refuse. */
export interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** Sends a request and reads the answer; of a stream, its start. */
export function send(url: string, { method = 'GET', headers = {}, body }: Sent = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (response) => {
      let text = '';
      const end = () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (response.headers['content-type'] !== 'text/event-stream') return;
        end();
        sent.destroy();
      });
      response.on('end', end).on('error', () => undefined);
    });
    sent.on('error', reject).end(body);
  });
}

/** Signs in with the URL that a tool has printed, and gives the headers of the page's requests. */
export async function signIn(printed: string): Promise<{
  readonly url: string;
  readonly cookie: string;
  readonly headers: { readonly cookie: string; readonly 'x-inspector-token': string };
}> {
  const page = await send(printed);
  const [cookie = ''] = String(page.headers['set-cookie']).split(';');
  const url = new URL(printed).origin;
  const session = await send(`${url}/api/session`, { headers: { cookie } });
  const { actionToken } = JSON.parse(session.text);
  return { url, cookie, headers: { cookie, 'x-inspector-token': actionToken } };
}

/** Reads server-sent events. `next` resolves to the name and the data of the next one of these names. */
export async function readStream(
  url: string,
  { headers = {} }: { readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<{ next(...names: readonly string[]): Promise<string> }> {
  const response = await fetch(url, { headers });
  const body = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  return {
    async next(...names) {
      for (;;) {
        const [found = '', name = '', data = ''] =
          new RegExp(`event: (${names.join('|')})\\ndata: (.*)\\n\\n`).exec(text) ?? [];
        if (found !== '') {
          text = text.slice(text.indexOf(found) + found.length);
          return `${name} ${data}`;
        }
        const chunk = await body?.read();
        if (chunk?.value === undefined) throw new Error(`The stream ended without ${names.join(' or ')}.`);
        text += decoder.decode(chunk.value, { stream: true });
      }
    },
  };
}
