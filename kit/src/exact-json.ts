/** Reformats JSON without changing its values. Numbers keep their digits, and duplicate names are kept. */

/**
 * Deeper levels are not indented any further. Otherwise, the output for a body of nested brackets would grow with the
 * square of its size.
 */
const MAX_INDENT = 32;

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

/** Indents a valid JSON text. `outer` is the level of indentation at which every line after the first begins. */
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

/** Writes a valid JSON text on one line without white space between the tokens. */
export function compactJson(json: string): string {
  return (json.match(TOKENS) ?? []).join('');
}
