import type { UnknownEvent } from 'stablehooks';

/**
 * One rule of a contract. Contracts are arrays of these, which any test runner can run.
 *
 * @typeParam Subject - the tested part: an {@link AdapterUnderTest}, {@link InboxUnderTest} or {@link QueueUnderTest}.
 *
 * @example
 * ```ts
 * function register<Subject>(contract: readonly ContractCase<Subject>[], open: () => Subject) {
 *   for (const { name, run } of contract) test(name, () => run(open()));
 * }
 * ```
 */
export interface ContractCase<Subject> {
  /** The rule as a sentence. It is unique within its contract. */
  readonly name: string;
  /** Resolves when `subject` keeps the rule. Otherwise rejects with an error that describes the violation. */
  run(subject: Subject): Promise<void>;
}

export const test = <Subject>(
  name: string,
  run: (subject: Subject) => Promise<void>,
): ContractCase<Subject> => ({
  name,
  run,
});

/** An event with a unique id. */
export const someEvent = (overrides: Partial<UnknownEvent> = {}): UnknownEvent => ({
  id: `evt:${crypto.randomUUID()}`,
  type: 'transfer.settled',
  created_at: '2026-01-02T03:04:05.678Z',
  payload: { amount: '10.50' },
  ...overrides,
});

/** A promise, and the function that resolves it. */
export function signal<Value = void>() {
  let resolve = (_value: Value) => {};
  const promise = new Promise<Value>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
