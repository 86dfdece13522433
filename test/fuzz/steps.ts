/** Random steps with names: fast-check prints and shrinks their arguments, and a report counts their names. */
import fc from 'fast-check';

export interface Step<Target, Result = void> {
  readonly name: string;
  run(target: Target): Result;
}

/** Steps by their names. */
export type Steps<Target, Result = void> = Readonly<
  Record<string, fc.Arbitrary<(name: string) => Step<Target, Result>>>
>;

/** A step that runs with random arguments. */
export const stepOf = <Args, Target, Result>(
  args: fc.Arbitrary<Args>,
  run: (target: Target, args: Args) => Result,
): Steps<Target, Result>[string] =>
  args.map((given) => (name) => ({
    name,
    run: (target) => run(target, given),
    [fc.toStringMethod]: () => `${name} ${fc.stringify(given).slice(0, 200)}`,
  }));

export const anyStep = <Target, Result>(steps: Steps<Target, Result>): fc.Arbitrary<Step<Target, Result>> =>
  fc.oneof(...Object.entries(steps).map(([name, step]) => step.map((toStep) => toStep(name))));

export const one = fc.constantFrom;
export const none = fc.constant(null);

/** A place in something whose length is not known yet; -1 is its end. */
export const place = fc.oneof(one(0, -1), fc.nat(0xffff));
export const placeIn = (at: number, { length }: { readonly length: number }) =>
  at < 0 ? length : at % (length + 1);

/** How often each kind of thing ran, as `GROUP: NAME`. */
export type Counts = Record<string, number>;

export function count(counts: Counts, name: string, more = 1): void {
  counts[name] = (counts[name] ?? 0) + more;
}

/** The names of the checks that are not so. */
export const failed = <Name extends string>(checks: Readonly<Partial<Record<Name, boolean>>>): Name[] =>
  (Object.keys(checks) as Name[]).filter((name) => !checks[name]);
