import { distance } from 'fastest-levenshtein';

/** The name that was probably meant: it differs in at most a third of its characters, whatever their case. */
export function nearestName<Name extends string>(typed: string, names: readonly Name[]): Name | undefined {
  const [nearest] = names
    .map((name) => ({ name, edits: distance(typed.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, edits }) => edits <= Math.max(2, name.length / 3) && edits < name.length)
    .sort((a, b) => a.edits - b.edits);
  return nearest?.name;
}
