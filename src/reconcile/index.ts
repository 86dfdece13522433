export type { InboxRecord } from '../core/ports.js';
export { normalizeAmount, sameAmount } from './amount.js';
export type { Amounts, DailyTotal } from './daily.js';
export type { LedgerEntry, ReconcileInbox, ReconcileOptions, ReconcileProgress } from './options.js';
export {
  findOwed,
  type OwedOptions,
  type OwedResult,
  type PendingMovement,
} from './owed.js';
export type { OwedCounts } from './owed-note.js';
export type { OwedMovement, OwedVerdict } from './owed-verdict.js';
export { reconcile } from './reconcile.js';
export { recordPages } from './record-pages.js';
export type {
  Finding,
  FindingCount,
  FindingKind,
  ReconcileResult,
  UnprovenPart,
  UnprovenReason,
} from './report.js';
