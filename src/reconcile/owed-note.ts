import type { Inbox } from '../core/ports.js';
import type { OwedVerdict } from './owed-verdict.js';

export type OwedCounts = Readonly<Record<OwedVerdict | 'pending' | 'early' | 'settling', number>>;

export interface OwedNote {
  /** When the run began, in epoch ms. */
  readonly at: number;
  readonly counts: OwedCounts;
}

export const OWED_NOTE = 'owed';

export async function readOwed(inbox: Pick<Inbox, 'readNote'>): Promise<OwedNote | undefined> {
  const note = await inbox.readNote(OWED_NOTE);
  return note === null ? undefined : (JSON.parse(note) as OwedNote);
}
