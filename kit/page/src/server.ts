import { signal } from '@preact/signals';
import type { ActionInputs, ActionName, ActionResults, Problem, Session } from '../../src/inspector/api.js';

export const session = signal<Session | undefined>(undefined);

export class RequestFailed extends Error {
  /** 0 if there was no response. */
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

type Query = Readonly<Record<string, string | number | undefined>>;

export async function ask<Answer>(
  path: string,
  query: Query = {},
  signal: AbortSignal | null = null,
): Promise<Answer> {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, `${value}`]],
  );
  const search = new URLSearchParams(given).toString();
  return answer(fetch(`./api/${path}${search === '' ? '' : `?${search}`}`, { signal }));
}

export async function act<Name extends ActionName>(
  name: Name,
  input: ActionInputs[Name],
): Promise<ActionResults[Name]> {
  return post(`actions/${name}`, input);
}

async function post<Answer>(path: string, input: unknown = {}): Promise<Answer> {
  return answer(
    fetch(`./api/${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-inspector-token': session.value?.actionToken ?? '',
      },
      body: JSON.stringify(input),
    }),
  );
}

export function can(name: ActionName): boolean {
  return session.value?.actions.includes(name) === true;
}

async function answer<Answer>(pending: Promise<Response>): Promise<Answer> {
  const response = await pending.catch((error: unknown) => {
    // The caller aborted the request, so this is not a failure.
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new RequestFailed(0, 'The inspector does not respond. Check that its process is still running.');
  });
  if (response.ok) return response.json();
  const problem: Partial<Problem> = await response.json().catch(() => ({}));
  throw new RequestFailed(
    response.status,
    problem.message ?? `The inspector responded with ${response.status}.`,
  );
}
