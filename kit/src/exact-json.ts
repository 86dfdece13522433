/** Reformats JSON. Numbers keep their digits, and duplicate names are kept. */

/** Without this maximum, the output for nested brackets would grow with the square of the input's size. */
const MAX_INDENT = 32;

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

/** `outer` is the indentation level of every line after the first. */
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

export function compactJson(json: string): string {
  return (json.match(TOKENS) ?? []).join('');
}
