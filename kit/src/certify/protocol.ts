/** The preload loads nothing else from the kit, so this file contains little more than types. */

export interface Setup {
  readonly folder: string;
  readonly path: string;
  /** How far the app's clock runs ahead, in ms. */
  readonly laterMs: number;
}

export type CallKind = 'pg' | 'sqlite' | 'fetch' | 'answer';

/** `text` contains no literals or numbers, so that it is the same for each event. */
export interface Point {
  readonly kind: CallKind;
  readonly text: string;
  /** `file:line` in the app, or the package that made the call if no code of the app is on the stack. */
  readonly at: string;
  readonly by: 'app' | 'stablehooks' | 'package';
  /** Counts equal calls in the same delivery, starting at 1. */
  readonly nth: number;
}

/** With `fails`, nothing is killed: the call throws without sending its statement or request, or the response is lost. */
export type Side = 'before' | 'after' | 'fails';

export interface Plan {
  readonly point: Point;
  readonly side: Side;
}

export type Note =
  | { readonly note: 'call'; readonly point: Point; readonly inDelivery: boolean }
  /** `key` is a digest of the value that makes a repetition harmless, if there is one. */
  | { readonly note: 'sent'; readonly text: string; readonly key: string | null }
  | { readonly note: 'arrived' }
  | { readonly note: 'happened'; readonly point: Point; readonly side: Side }
  | { readonly note: 'unseen'; readonly what: string; readonly at: string };

export const NOTES = 'notes.jsonl';
export const PLAN = 'plan.json';
export const SETUP = 'STABLEHOOKS_CERTIFY';
