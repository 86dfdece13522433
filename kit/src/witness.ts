/** A witness: hears what another object's methods reject with, where only a summary of it would come out. */

/** An object, and the last error that one of its methods threw or rejected with. */
interface Witnessed<Target> {
  readonly target: Target;
  lastError(): unknown;
}

/** Stands in front of the object; whoever calls it notices nothing. */
export function witness<Target extends object>(object: Target): Witnessed<Target> {
  let last: unknown;
  const hear = (error: unknown) => {
    last = error;
    throw error;
  };
  const target = new Proxy(object, {
    get(from, name) {
      const member: unknown = Reflect.get(from, name);
      if (typeof member !== 'function') return member;
      return (...values: readonly unknown[]) => {
        const answer: unknown = Reflect.apply(member, from, values);
        return answer instanceof Promise ? answer.catch(hear) : answer;
      };
    },
  });
  return { target, lastError: () => last };
}
