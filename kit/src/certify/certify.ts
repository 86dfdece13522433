/** Kills an app at each call of a delivery, once per run, and compares the effects with those of undisturbed runs. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CommandError, usageError } from '../io/errors.js';
import { withInbox } from '../io/inbox.js';
import { EXIT } from '../io/output.js';
import { createSandbox, type EndpointInput, type Sandbox } from '../sandbox/index.js';
import type { AppProcess } from './app-process.js';
import {
  differenceOf,
  type Identity,
  type Reference,
  type Row,
  readEffects,
  rowsOf,
  toReference,
} from './effects.js';
import { type Notes, sentRows } from './notes.js';
import type { Note, Point, Setup, Side } from './protocol.js';

export type Effect = 'once' | 'twice' | 'lost' | 'changed' | 'never settled' | 'not shown';

export interface PointRun {
  readonly point: Point;
  readonly side: Side;
  readonly effect: Effect;
}

export interface ScenarioRun {
  readonly scenario: string;
  readonly effect: Effect;
}

export interface Certificate {
  readonly points: readonly PointRun[];
  readonly scenarios: readonly ScenarioRun[];
  /** The calls at which certify could not kill the app or could not compare the effects. */
  readonly unseen: readonly { readonly what: string; readonly at: string }[];
  readonly hasInbox: boolean;
}

export interface CertifyOptions {
  readonly app: AppProcess;
  readonly notes: Notes;
  readonly sandbox: Sandbox;
  readonly setup: Setup;
  readonly database: string;
  readonly sql: string;
  readonly inbox: { readonly inbox: string; readonly namespace?: string };
  readonly type: string;
  /** JSON in which `{new}` stands for a value that is different in each event. */
  readonly payload: string;
  readonly settleMs: number;
  readonly signal: AbortSignal;
  readonly onRun: (done: number, total: number) => void;
}

/** A run ends only after this long without a call, because effects can follow the response. */
const QUIET_MS = 300;
/** This wait is longer than in other runs, so that no call is missed. */
const REFERENCE_QUIET_MS = 1_000;
const LOOK_MS = 50;
const PAIRS = 3;
const DAY_MS = 86_400_000;
/** Certify does not make these statements fail, because databases roll back without them. */
const CONTROL = /^(?:begin|start|commit|end|rollback|savepoint|release|pragma|set)\b/i;

export async function certify(options: CertifyOptions): Promise<Certificate> {
  return await new Certification(options).run();
}

/** Attempts each delivery only once, because the runs decide about retries. */
export function createService(endpoint: EndpointInput): Sandbox {
  return createSandbox({ secret: endpoint.secret, maxAttempts: 1, endpoints: [endpoint] });
}

interface Trial extends Identity {
  readonly what: string;
  readonly since: number;
}

class Certification {
  readonly #options: CertifyOptions;
  #reference: Reference = { effects: [], compare: JSON.stringify };
  #hasInbox = false;
  readonly #settled: (readonly [trial: Trial, rows: string])[] = [];

  constructor(options: CertifyOptions) {
    this.#options = options;
  }

  async run(): Promise<Certificate> {
    const { app, notes, setup, settleMs, onRun } = this.#options;
    await app.start(setup);
    // Otherwise, a poll at the start of the app could run the first event in parallel with its delivery.
    const startedAt = Date.now();
    const isQuiet = () =>
      notes.count >= 0 && Date.now() - Math.max(startedAt, notes.lastNoteAt) > REFERENCE_QUIET_MS;
    while (!isQuiet() && Date.now() - startedAt < settleMs) await this.#pause();
    const startup = notes.count;
    const [cold, coldRows] = await this.#undisturbed();
    const [, warmRows] = await this.#undisturbed();
    const reference = toReference(coldRows, warmRows);
    if (reference === undefined)
      throw new CommandError(
        EXIT.failed,
        `Two undisturbed deliveries had different effects: ${coldRows.length} and ${warmRows.length} rows or requests. Certify needs a handler that does the same work for each event.`,
      );
    this.#reference = reference;
    this.#hasInbox = await this.#findInbox(cold.id);
    const seen = notes.since(startup);
    const known = namesOf(notes.since(0).slice(0, startup));
    const plans = pointsOf(seen).flatMap((point) => sidesOf(point).map((side) => ({ point, side })));
    const total = plans.length + PAIRS + 1;

    const points: PointRun[] = [];
    for (const plan of plans) {
      onRun(points.length, total);
      points.push({ ...plan, effect: await this.#runPlan(plan.point, plan.side) });
    }
    const scenarios: ScenarioRun[] = [];
    for (let pair = 1; pair <= PAIRS; pair++) {
      onRun(plans.length + scenarios.length, total);
      scenarios.push(await this.#runPair(`two copies at the same time, ${pair}`));
    }
    scenarios.push(await this.#runDayLater(), ...(await this.#lateEffects()));
    return { points, scenarios, unseen: unseenIn(notes.since(0), seen, known), hasInbox: this.#hasInbox };
  }

  #begin(what: string): Trial {
    const { notes, sandbox, type, payload } = this.#options;
    const token = randomBytes(5).toString('hex').toUpperCase();
    const since = notes.count;
    const { id } = sandbox.emit(type, JSON.parse(payload.replaceAll('{new}', token)));
    return { what, id, token, since };
  }

  async #undisturbed(): Promise<readonly [Trial, readonly Row[]]> {
    const { notes, sandbox, settleMs, setup } = this.#options;
    const trial = this.#begin('undisturbed');
    await sandbox.settled();
    if (!notes.since(trial.since).some(({ note }) => note === 'arrived'))
      throw usageError(
        `Certify saw no delivery to ${setup.path} in your app. Check --url. Your app must be a node:http server on Node 20 or later.`,
      );
    const endMs = Date.now() + settleMs;
    for (;;) {
      const rows = await this.#effectsOf(trial);
      const isQuiet = notes.count >= 0 && Date.now() - notes.lastCallAt > REFERENCE_QUIET_MS;
      if ((isQuiet && rows.length > 0) || Date.now() > endMs) break;
      await this.#pause();
    }
    if (!this.#isDelivered(trial)) {
      const attempt = sandbox.attempts({ eventId: trial.id }).at(-1);
      const answer = attempt?.response ? `responded with ${attempt.response.status}` : 'did not respond';
      throw new CommandError(
        EXIT.failed,
        `The app ${answer} when its delivery was left undisturbed, so there is nothing to compare. Check the secret, --type and --payload.`,
      );
    }
    const rows = await this.#effectsOf(trial);
    if (rows.length > 0) return [trial, rows];
    throw usageError(
      'No row of --effects names the event of an undisturbed delivery. Select a column with the event id or with an id from the payload.',
    );
  }

  async #runPlan(point: Point, side: Side): Promise<Effect> {
    const { app, notes, sandbox } = this.#options;
    // The second attempt uses a fresh process, because some calls occur only in the first delivery to a process.
    for (const isFresh of [false, true]) {
      if (isFresh) await this.#restart();
      notes.plan({ point, side });
      const trial = this.#begin(`${side} ${point.text}`);
      await sandbox.settled();
      const hasHappened = () => notes.since(trial.since).some(({ note }) => note === 'happened');
      // A call can occur after the response.
      while (!hasHappened() && app.isRunning && Date.now() - notes.lastCallAt < QUIET_MS) await this.#pause();
      notes.clearPlan();
      if (!hasHappened()) continue;
      if (side !== 'fails') await this.#restart(trial.id);
      return await this.#settle(trial);
    }
    return 'not shown';
  }

  async #runPair(scenario: string): Promise<ScenarioRun> {
    const { sandbox } = this.#options;
    const trial = this.#begin(scenario);
    sandbox.redeliver(trial.id);
    await sandbox.settled();
    // One copy may have been refused because the other copy was running.
    sandbox.redeliver(trial.id);
    await sandbox.settled();
    return { scenario, effect: await this.#settle(trial) };
  }

  async #runDayLater(): Promise<ScenarioRun> {
    const { app, sandbox, setup } = this.#options;
    const scenario = 'the same delivery a day later';
    const trial = this.#begin(scenario);
    await sandbox.settled();
    await this.#settle(trial);
    await app.stop();
    await app.start({ ...setup, laterMs: DAY_MS });
    sandbox.redeliver(trial.id);
    await sandbox.settled();
    return { scenario, effect: await this.#settle(trial) };
  }

  /** Also ends the lease of the event, because the killed process cannot end it. */
  async #restart(eventId?: string): Promise<void> {
    const { app, setup, inbox } = this.#options;
    await (eventId === undefined ? app.stop() : app.kill());
    if (eventId !== undefined && this.#hasInbox)
      await withInbox(inbox, async (opened) => {
        const record = await opened.find(eventId);
        if (record?.state === 'leased') await opened.requeue({ ids: [eventId], force: true });
      });
    await app.start(setup);
  }

  async #settle(trial: Trial): Promise<Effect> {
    const { app, notes, sandbox, settleMs } = this.#options;
    const endMs = Date.now() + settleMs;
    for (;;) {
      if (!app.isRunning) await this.#restart(trial.id);
      if (!this.#isDelivered(trial)) {
        sandbox.redeliver(trial.id);
        await sandbox.settled();
      }
      const isDelivered = this.#isDelivered(trial);
      const difference = differenceOf(this.#reference, await this.#effectsOf(trial));
      const isQuiet = notes.count >= 0 && Date.now() - notes.lastCallAt > QUIET_MS;
      const isOver = Date.now() > endMs;
      if ((isDelivered && isQuiet && difference === 'same') || isOver) {
        this.#settled.push([trial, JSON.stringify(await this.#rowsOf(trial))]);
        if (difference === 'more') return 'twice';
        if (difference === 'other') return 'changed';
        if (difference === 'same') return isDelivered ? 'once' : 'never settled';
        return isDelivered && !(await this.#isWaiting(trial.id)) ? 'lost' : 'never settled';
      }
      if (isQuiet && difference === 'more') return 'twice';
      await this.#pause();
    }
  }

  async #lateEffects(): Promise<readonly ScenarioRun[]> {
    const late: ScenarioRun[] = [];
    for (const [trial, rows] of this.#settled) {
      const now = await this.#rowsOf(trial);
      if (JSON.stringify(now) === rows) continue;
      const isMore = now.length > JSON.parse(rows).length;
      late.push({ scenario: `later, after its run: ${trial.what}`, effect: isMore ? 'twice' : 'changed' });
    }
    return late;
  }

  async #isWaiting(id: string): Promise<boolean> {
    if (!this.#hasInbox) return false;
    const record = await withInbox(this.#options.inbox, (inbox) => inbox.find(id));
    return record !== undefined && record.state !== 'done';
  }

  #isDelivered({ id }: Trial): boolean {
    return this.#options.sandbox.deliveries({ eventId: id }).some(({ state }) => state === 'delivered');
  }

  async #effectsOf(trial: Trial): Promise<readonly Row[]> {
    const sent = sentRows(this.#options.notes.since(trial.since));
    return [...(await this.#rowsOf(trial)), ...sent];
  }

  async #rowsOf(trial: Trial): Promise<readonly Row[]> {
    const { database, sql } = this.#options;
    return rowsOf(await readEffects(database, sql), trial);
  }

  async #findInbox(eventId: string): Promise<boolean> {
    try {
      return (await withInbox(this.#options.inbox, (inbox) => inbox.find(eventId))) !== undefined;
    } catch {
      // An app without stablehooks has no inbox to open.
      return false;
    }
  }

  async #pause(): Promise<void> {
    this.#options.signal.throwIfAborted();
    await sleep(LOOK_MS);
  }
}

function sidesOf({ kind, text, by }: Point): readonly Side[] {
  const canFail = kind === 'answer' || kind === 'fetch' || (by !== 'stablehooks' && !CONTROL.test(text));
  return canFail ? ['before', 'after', 'fails'] : ['before', 'after'];
}

function callsIn(notes: readonly Note[]) {
  return notes.flatMap((note) => (note.note === 'call' ? [note] : []));
}

const nameOf = ({ kind, text, at }: Point) => `${kind} ${text} ${at}`;

function namesOf(notes: readonly Note[]): ReadonlySet<string> {
  return new Set(callsIn(notes).map(({ point }) => nameOf(point)));
}

function pointsOf(notes: readonly Note[]): readonly Point[] {
  const points = callsIn(notes).flatMap(({ point, inDelivery }) => (inDelivery ? [point] : []));
  return [...new Map(points.map((point) => [`${nameOf(point)} ${point.nth}`, point])).values()];
}

function unseenIn(all: readonly Note[], undisturbed: readonly Note[], known: ReadonlySet<string>) {
  const outside = callsIn(undisturbed)
    .filter(({ inDelivery, point }) => !inDelivery && point.by !== 'stablehooks')
    .filter(({ point }) => !known.has(nameOf(point)))
    .map(({ point: { text, at } }) => ({ what: `outside the delivery: ${text}`, at }));
  const uncounted = all.flatMap((note) => (note.note === 'unseen' ? [{ what: note.what, at: note.at }] : []));
  const hasWork = pointsOf(undisturbed).some(({ kind }) => kind !== 'answer');
  const none = hasWork ? [] : [{ what: 'no statement or request of a delivery was seen', at: 'unknown' }];
  return [...new Map([...outside, ...uncounted, ...none].map((one) => [JSON.stringify(one), one])).values()];
}
