import type { Books } from './books.js';
import type { DailyTotals } from './daily.js';
import type { Movements } from './movements.js';
import type { LedgerEntry, ReconcileSettings } from './options.js';
import type { Span } from './proof.js';
import type { ReadList } from './read-list.js';
import type { FindingLog, Totals } from './report.js';

export interface Comparison<Entry extends LedgerEntry> {
  readonly settings: ReconcileSettings<Entry>;
  readonly span: Span;
  readonly list: ReadList;
  readonly books: Books;
  readonly totals: Totals;
  readonly daily: DailyTotals<Entry> | undefined;
  readonly movements: Movements;
  readonly log: FindingLog;
}
