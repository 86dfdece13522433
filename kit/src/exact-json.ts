/** Reformats JSON without changing its values: numbers keep their digits, and duplicate names stay. */

/** Beyond it, the indentation of each line no longer grows: a body of brackets alone would grow with its square. */
const MAX_INDENT = 32;

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

/** The tokens of a valid JSON text on lines of their own; `outer` is how deep those after the first are indented. */
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
