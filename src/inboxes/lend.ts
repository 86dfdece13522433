/** Connections that handlers borrow from the inbox. */
import { type HandlerError, StablehooksError } from '../core/errors.js';

type Method = (...args: readonly unknown[]) => unknown;

/**
 * The connection as a handler receives it. After the end of the handler a statement would reach whatever transaction the
 * connection has then, so it is refused.
 *
 * @param methods - the methods that send statements.
 */
export function lend<Connection extends object>(
  connection: Connection,
  methods: readonly (keyof Connection)[],
): { readonly tx: Connection; close(): void } {
  let isClosed = false;
  const guard = (method: Method) => ({
    value(...args: readonly unknown[]) {
      if (!isClosed) return Reflect.apply(method, connection, args);
      const callback = args.at(-1);
      return typeof callback === 'function' ? callback(sentLate()) : Promise.reject(sentLate());
    },
  });
  const release = () => {
    throw new StablehooksError('ERR_HANDLER_FAILED', 'The inbox releases the connection of ctx.tx.');
  };
  const guards = methods.map((name) => [name, guard(connection[name] as Method)]);
  const tx: Connection = Object.create(connection, {
    ...Object.fromEntries(guards),
    release: { value: release },
  });
  const close = () => {
    isClosed = true;
  };
  return { tx, close };
}

export function sentLate(): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    'The transaction has ended and the statement was not sent. Await every statement in the handler.',
  );
}

export function leftNested(cause: unknown): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    'The handler returned while a nested transaction was open, and everything that it wrote was rolled back. Await every nested transaction. The event runs again.',
    { cause },
  );
}
