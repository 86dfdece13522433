import { readOptions, required, rule } from './options.js';

/**
 * Makes a check for a state that only moves forward, such as `redeem.completed`, which `redeem.failed` can follow and
 * which must not replace it: events can arrive in another order than they were created in.
 *
 * Read the state and write it where no other event of the same object runs in between: under an `orderingKey`, or in
 * the transaction that locks its row.
 *
 * @param order - the states, from the first to the last.
 * @returns a function of the present state (`null` or `undefined` when there is none yet) and the next one: whether the
 * next one comes later. It throws `ERR_CONFIG_INVALID` when a state is not in `order`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `order` is not a list of two or more different strings.
 *
 * @example
 * ```ts
 * const isForward = forwardOnly(['redeem.completed', 'redeem.failed']);
 * if (isForward(row.state, event.type)) await save({ ...row, state: event.type });
 * ```
 */
export function forwardOnly<const State extends string>(
  order: readonly State[],
): (present: State | null | undefined, next: State) => boolean {
  const states = rule('a list of two or more different strings', isListOfStates);
  readOptions('forwardOnly', { order }, { order: required(states) });
  const ranks = new Map(order.map((state, rank) => [state, rank]));
  const known = required(rule(`one of ${order.join(', ')}`, (state) => ranks.has(state as State)));
  const rankOf = (state: State): number => {
    readOptions('forwardOnly', { state }, { state: known });
    return ranks.get(state) ?? 0;
  };
  return (present, next) => {
    const rank = rankOf(next);
    return present === null || present === undefined || rankOf(present) < rank;
  };
}

function isListOfStates(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 2 || new Set(value).size < value.length) return false;
  return value.every((state) => typeof state === 'string');
}
