/** The report of a poll: plain data, so that it can be logged, stored and sent as JSON. */
import type { EventType } from '../core/events.js';
import type { OutcomeCounts } from '../receiver/outcome.js';
import type { Problem } from './problem.js';
import type { Finding } from './survey.js';

/** What one poll did and proved. Survives `JSON.stringify`. */
export interface PollReport {
  /** Whether every event of the five types created after `since` and up to the new watermark is recorded. */
  readonly proven: boolean;
  /** The watermark after this poll, ISO; `null` when it could not be read because another process polls or the inbox failed. */
  readonly watermark: string | null;
  /** Different readable events in the answers of this poll. */
  readonly fetched: number;
  /** Of these, the ones that the inbox had never seen, unknown types included: pull saw them first. */
  readonly new: number;
  /** Of `new`, the ones that this poll made take effect or queued. It counts what push alone would have lost or delayed. */
  readonly recovered: number;
  /** Of `new`, the ones that the list calls `delivered`: some endpoint answered well, yet this inbox never saw them. */
  readonly deliveredButUnseen: number;
  /** Events, from the list or from the inbox, whose handler finished in this poll. */
  readonly handled: number;
  /** Events from the list that were done already. Those that wait in the inbox, are dead or parked are in no count but `fetched`. */
  readonly duplicates: number;
  /** Events, from the list or from the inbox, that this poll tried and that did not succeed. */
  readonly failed: number;
  /** Requests put to the list, failed ones included, the client's own retries not. */
  readonly requests: number;
  /** The verdict on the whole list, and on each type where it was asked for by itself. */
  readonly verdicts: readonly Finding[];
  /** Where events may be missing: which type (`null`: all), and the span of `created_at`, ISO. */
  readonly gaps: readonly Gap[];
  /** What failed or looked wrong. */
  readonly problems: readonly Problem[];
  /** How the events that waited in the inbox ended, before the list was asked; `null` when it was not asked. */
  readonly redriven: OutcomeCounts | null;
  readonly durationMs: number;
}

/** A span of time of which it is not proven that everything is recorded. */
export interface Gap {
  readonly type: EventType | null;
  /** Everything up to here is recorded. */
  readonly after: string;
  /** The poll's start. */
  readonly before: string;
}

/** The report of a poll that did not come to ask. */
export const NOTHING: PollReport = {
  proven: false,
  watermark: null,
  fetched: 0,
  new: 0,
  recovered: 0,
  deliveredButUnseen: 0,
  handled: 0,
  duplicates: 0,
  failed: 0,
  requests: 0,
  verdicts: [],
  gaps: [],
  problems: [],
  redriven: null,
  durationMs: 0,
};
