/** The inbox's note with the last result of `findOwed`, which `health` reads. */
import type { Inbox } from '../core/ports.js';
import type { OwedVerdict } from './owed-verdict.js';

export type OwedCounts = Readonly<Record<OwedVerdict | 'pending' | 'early' | 'settling', number>>;

export interface OwedNote {
  /** When it began, epoch ms. */
  readonly at: number;
  readonly counts: OwedCounts;
}

export const OWED_NOTE = 'owed';

/** `undefined` before the first run of `findOwed`. */
export async function readOwed(inbox: Pick<Inbox, 'readNote'>): Promise<OwedNote | undefined> {
  const note = await inbox.readNote(OWED_NOTE);
  return note === null ? undefined : (JSON.parse(note) as OwedNote);
}
