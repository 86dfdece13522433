/** JSON on other lines without a change of its values: numbers keep their digits, and names that occur twice stay. */

/** Beyond it, the indentation of each line no longer grows: a body of brackets alone would grow with its square. */
const MAX_INDENT = 32;

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

/**
 * The same tokens on separate lines.
 *
 * @param json - a text that `JSON.parse` accepts.
 * @param outer - how deep the lines after the first are indented. @default 0
 */
export function indentJson(json: string, outer = 0): string {
  let depth = outer;
  let last = '';
  const parts: string[] = [];
  const line = () => `\n${'  '.repeat(Math.min(depth, MAX_INDENT))}`;
  for (const [token] of json.matchAll(TOKENS)) {
    const opens = token === '{' || token === '[';
    const closes = token === '}' || token === ']';
    const isEmpty = closes && (last === '{' || last === '[');
    if (closes) depth -= 1;
    if ((closes && !isEmpty) || (!closes && /^[{[,]$/.test(last))) parts.push(line());
    parts.push(token === ':' ? ': ' : token);
    if (opens) depth += 1;
    last = token;
  }
  return parts.join('');
}

/** The same tokens in one line. */
export function compactJson(json: string): string {
  return (json.match(TOKENS) ?? []).join('');
}
