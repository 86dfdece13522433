import { type HandlerError, PermanentError, StablehooksError } from '../core/errors.js';

/**
 * The methods in `control` always reject, and the methods in `statements` reject after `close`. `close` returns the error of
 * the most recent rejected call to a `control` method, in case the handler caught that error.
 */
export function lend<Lent extends object>(
  lent: Lent,
  statements: readonly PropertyKey[],
  control: readonly PropertyKey[] = [],
): { readonly tx: Lent; close(): HandlerError | undefined } {
  let isClosed = false;
  let refused: HandlerError | undefined;
  function refusalOf(name: PropertyKey): HandlerError | undefined {
    if (!control.includes(name)) return isClosed && statements.includes(name) ? sentLate() : undefined;
    refused = controlled(name);
    return refused;
  }
  const release = () => {
    throw new StablehooksError(
      'ERR_HANDLER_FAILED',
      "Don't call release() on ctx.tx: the inbox releases the connection itself.",
    );
  };
  const tx = new Proxy(lent, {
    get(_, name) {
      const value: unknown = Reflect.get(lent, name);
      if (typeof value !== 'function') return value;
      if (name === 'release') return release;
      return (...args: readonly unknown[]) => {
        const error = refusalOf(name);
        if (error === undefined) return Reflect.apply(value, lent, args);
        const callback = args.at(-1);
        return typeof callback === 'function' ? callback(error) : Promise.reject(error);
      };
    },
  });
  const close = () => {
    isClosed = true;
    return refused;
  };
  return { tx, close };
}

function controlled(name: PropertyKey): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    `ctx.tx does not allow ${String(name)}(), because the inbox begins and ends the transaction. Return from the handler to commit, or throw to roll back. To roll back only some statements, use a SAVEPOINT.`,
  );
}

export function sentLate(): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    'The statement was not sent, because the transaction has already ended. Await every statement in the handler.',
  );
}

/** This error is permanent, because another attempt could repeat what the handler has already committed. */
export function endedByHandler(cause: unknown): PermanentError {
  return new PermanentError(
    "The handler ended its event's transaction, either with COMMIT, ROLLBACK, BEGIN or DDL, or by catching the error of a failed statement or deadlock. The handler's writes may be committed, so the event will not run again. Check what the handler wrote, then requeue or discard the event.",
    { cause },
  );
}

export function leftNested(cause: unknown): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    'The handler returned while a nested transaction was open, so everything that the handler wrote was rolled back. Await every nested transaction. The event will run again.',
    { cause },
  );
}
