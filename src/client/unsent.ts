/** A limit, because an error can be its own cause. */
export const MAX_CAUSES = 8;

/** Matches failures to connect, by the codes of Node, undici and Bun, and by the message of Deno, which has no codes. */
const UNSENT =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused) |client error \(Connect\)/;

export function isUnsent(thrown: unknown, depth = MAX_CAUSES): boolean {
  if (!(thrown instanceof Error)) return false;
  const code = 'code' in thrown ? thrown.code : '';
  return UNSENT.test(`${code} ${thrown.message}`) || (depth > 0 && isUnsent(thrown.cause, depth - 1));
}
