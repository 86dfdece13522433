/** A browser's session with the inspector of a command, without a browser. */
import type { ActionInputs, ActionName, ActionResults, Session } from '../../src/inspector/api.js';

/** Asks the inspector at a URL that a command printed. */
export interface InspectorSession {
  readonly session: Session;
  ask<Answer>(path: string): Promise<Answer>;
  act<Name extends ActionName>(name: Name, input: ActionInputs[Name]): Promise<ActionResults[Name]>;
}

/** The URL of the inspector in the output of a command. */
export function inspectorUrlIn(output: string): string {
  const [url] = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]+/.exec(output) ?? [];
  if (url === undefined) throw new Error(`There is no URL of an inspector in:\n${output}`);
  return url;
}

/** Exchanges the token in the URL for a cookie, as a browser does. */
export async function openSession(url: string): Promise<InspectorSession> {
  const page = await fetch(url);
  const [cookie = ''] = page.headers.get('set-cookie')?.split(';') ?? [];
  const { origin } = new URL(url);
  async function read<Answer>(response: Response): Promise<Answer> {
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    return response.json() as Promise<Answer>;
  }
  const ask = async <Answer>(path: string) =>
    read<Answer>(await fetch(`${origin}/api/${path}`, { headers: { cookie } }));
  const session = await ask<Session>('session');
  return {
    session,
    ask,
    act: async (name, input) =>
      read(
        await fetch(`${origin}/api/actions/${name}`, {
          method: 'POST',
          headers: { cookie, 'content-type': 'application/json', 'x-inspector-token': session.actionToken },
          body: JSON.stringify(input),
        }),
      ),
  };
}
