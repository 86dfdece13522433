import type { InboxOperations, InboxRecord, InboxState } from 'stablehooks';
import { recordPages } from 'stablehooks/reconcile';

/** The records of one state, as {@link recordPages} reads them. */
export async function* recordsOf(
  inbox: Pick<InboxOperations, 'list'>,
  state: InboxState,
): AsyncGenerator<InboxRecord, void, undefined> {
  for await (const page of recordPages(inbox, { state, limit: 500 })) yield* page;
}
