/**
 * A value from JSON as JSON, whatever its depth. A value that is nested too deeply for `JSON.stringify`, as an event can
 * be that a receiver accepted, is written without indentation.
 */
export function toJsonText(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, null, indent);
  } catch (error) {
    // The stack is full: each level of the value is a call.
    if (!(error instanceof RangeError)) throw error;
    return writeDeep(value);
  }
}

/** Without a call for each level. */
function writeDeep(root: unknown): string {
  const parts: string[] = [];
  /** What is still to be written, the next one at the end: text, or a value. */
  const rest: ({ readonly text: string } | { readonly value: unknown })[] = [{ value: root }];
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    if ('text' in next) {
      parts.push(next.text);
    } else if (typeof next.value !== 'object' || next.value === null) {
      parts.push(JSON.stringify(next.value));
    } else {
      const isArray = Array.isArray(next.value);
      const fields = Object.entries(next.value).filter(([, field]) => field !== undefined);
      rest.push({ text: isArray ? ']' : '}' });
      for (const [index, [key, value]] of [...fields.entries()].reverse()) {
        const name = isArray ? '' : `${JSON.stringify(key)}:`;
        rest.push({ value }, { text: `${index === 0 ? '' : ','}${name}` });
      }
      parts.push(isArray ? '[' : '{');
    }
  }
  return parts.join('');
}
