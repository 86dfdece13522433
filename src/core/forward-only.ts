import { oneOf, readOptions, required, rule } from './options.js';

/**
 * Returns a check for a state that only moves forward. Events can arrive in another order than they were created in:
 * a late `redeem.completed` must not replace `redeem.failed`.
 *
 * Read and write the state while no other event of the same object runs: under an `orderingKey`, or in a transaction
 * that locks its row.
 *
 * @param order - the states, from the first to the last.
 * @returns a function of the present state (`null` or `undefined` for none) and the next one: whether the next one comes
 * later. It throws `ERR_CONFIG_INVALID` when a state is not in `order`.
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
): (present: string | null | undefined, next: State) => boolean {
  const states = rule('a list of two or more different strings', isListOfStates);
  readOptions('forwardOnly', { order }, { order: required(states) });
  const known = required(oneOf(order));
  const rankOf = (name: 'present' | 'next', state: string): number => {
    readOptions('forwardOnly', { [name]: state }, { [name]: known });
    return (order as readonly string[]).indexOf(state);
  };
  return (present, next) => {
    const rank = rankOf('next', next);
    return present === null || present === undefined || rankOf('present', present) < rank;
  };
}

function isListOfStates(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 2 || new Set(value).size < value.length) return false;
  return value.every((state) => typeof state === 'string');
}
