export { normalizeAmount, sameAmount } from './amount.js';
export type { Amounts, DailyTotal } from './daily.js';
export {
  type LedgerEntry,
  type ReconcileInbox,
  type ReconcileOptions,
  type ReconcileProgress,
  reconcile,
} from './reconcile.js';
export { recordPages } from './record-pages.js';
export type {
  Finding,
  FindingCount,
  FindingKind,
  ReconcileResult,
  UnprovenPart,
  UnprovenReason,
} from './report.js';
