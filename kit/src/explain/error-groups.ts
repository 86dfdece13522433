import type { InboxOperations, InboxRecord, InboxState } from 'stablehooks';

/** Errors in the same group differ only in variable parts, such as ids, times and amounts. */
export interface ErrorGroup {
  readonly state: InboxState;
  readonly error: string;
  /** The longest text that all errors in the group contain, for use in a filter. */
  readonly part: string;
  readonly count: number;
  /** When the first and the last event failed, in epoch ms. */
  readonly first: number;
  readonly last: number;
  readonly types: readonly string[];
}

export interface ErrorGroups {
  readonly groups: readonly ErrorGroup[];
  /** Whether older events were not read, so that the counts are too low. */
  readonly isCut: boolean;
}

const PAGE = 500;
const MAX_READ = 2_000;

/** Matches a quoted text, a time, a UUID, a word that contains a digit, or a number, but not an HTTP status. */
const VARIABLE =
  /"[^"]*"|'[^']*'|\d{4}-\d\d-\d\dT[\d:.]+Z?|(?![1-5]\d\d(?![\w.,:-]*\w))(?<!\w)[\w-]*\d(?:[\w.:-]*\w)?/g;

export function toErrorPattern(lastError: string | null): string {
  // Errors from later manual runs are cut off, because they are not the cause.
  const [text = ''] = (lastError ?? 'no error is known').split('; inbox run: ');
  return text.replaceAll(VARIABLE, '…').replace(/\.$/, '');
}

export async function groupErrors(inbox: Pick<InboxOperations, 'list'>): Promise<ErrorGroups> {
  const groups = new Map<string, ErrorGroup>();
  let isCut = false;
  for (const state of ['dead', 'failed'] as const) {
    let read = 0;
    for (let after: string | undefined; ; ) {
      const page = await inbox.list({ state, limit: PAGE, after, order: 'newest', withEvents: false });
      for (const record of page) add(groups, record);
      read += page.length;
      after = page.at(-1)?.id;
      isCut ||= read >= MAX_READ && page.length === PAGE;
      if (page.length < PAGE || read >= MAX_READ) break;
    }
  }
  return { groups: [...groups.values()].toSorted((a, b) => b.count - a.count), isCut };
}

function add(groups: Map<string, ErrorGroup>, { state, type, lastError, updatedAt }: InboxRecord): void {
  const error = toErrorPattern(lastError);
  const key = `${state} ${error}`;
  const known = groups.get(key);
  groups.set(key, {
    state,
    error,
    part: error.split('…').toSorted((a, b) => b.length - a.length)[0] ?? '',
    count: (known?.count ?? 0) + 1,
    first: Math.min(known?.first ?? updatedAt, updatedAt),
    last: Math.max(known?.last ?? updatedAt, updatedAt),
    types: [...new Set([...(known?.types ?? []), type])].toSorted(),
  });
}
