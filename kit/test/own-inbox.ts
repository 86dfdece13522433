import { type OpenInbox, openOwnInbox } from '../src/io/inbox.js';

/** Opens the namespace of `catch-up` and `listen` in an SQLite file; it is closed at the end of the block. */
export async function openCatchUp(path: string): Promise<OpenInbox & Disposable> {
  const inbox = await openOwnInbox({ inbox: path });
  return Object.assign(Object.create(inbox), { ...inbox, [Symbol.dispose]: () => inbox.close() });
}
