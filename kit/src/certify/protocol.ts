/** The messages between the preload in the app and the command. Only types, because the preload loads nothing from the kit. */

/** Passed to the app as JSON in this environment variable. */
export interface Setup {
  /** The folder with {@link NOTES} and {@link PLAN}. */
  readonly folder: string;
  /** The endpoint's path; a POST to it is a delivery. */
  readonly path: string;
  /** How far the app's clock runs ahead. */
  readonly laterMs: number;
}

export type CallKind = 'pg' | 'sqlite' | 'fetch' | 'answer';

/** A call in a delivery. Its text omits literals and numbers, so it is the same for each event. */
export interface Point {
  readonly kind: CallKind;
  readonly text: string;
  /** `file:line` in the app, or the package that made the call if no code of the app is on the stack. */
  readonly at: string;
  readonly by: 'app' | 'stablehooks' | 'package';
  /** The position of this call among equal calls in one delivery, from 1. */
  readonly nth: number;
}

/** `fails`: the call throws, and its statement or request is not sent. A response is lost on its way. */
export type Side = 'before' | 'after' | 'fails';

/** What happens to the next delivery that arrives, once. */
export interface Plan {
  readonly point: Point;
  readonly side: Side;
}

export type Note =
  | { readonly note: 'call'; readonly point: Point; readonly inDelivery: boolean }
  /** A request that changes something outside; `key` is a digest of what makes a repetition harmless, if it has that. */
  | { readonly note: 'sent'; readonly text: string; readonly key: string | null }
  | { readonly note: 'arrived' }
  | { readonly note: 'happened'; readonly point: Point; readonly side: Side }
  | { readonly note: 'unseen'; readonly what: string; readonly at: string };

export const NOTES = 'notes.jsonl';
export const PLAN = 'plan.json';
export const SETUP = 'STABLEHOOKS_CERTIFY';
