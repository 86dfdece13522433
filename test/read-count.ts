/** A count on the command line or in the environment. Text that is none must not become a run of nothing. */
export function readCount<Text extends string | undefined>(
  flag: string,
  text: Text,
  { min = 1 }: { readonly min?: number } = {},
): Text extends string ? number : undefined {
  const count = text === undefined ? undefined : Number(text);
  if (count === undefined || (Number.isSafeInteger(count) && count >= min && text?.trim() !== '')) {
    return count as Text extends string ? number : undefined;
  }
  throw new Error(`${flag} must be an integer of at least ${min}.`);
}
