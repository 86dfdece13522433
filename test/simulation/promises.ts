/**
 * The promises of the package, checked while a world runs. It sees every change of the stores at the moment when it takes
 * effect, and keeps its own account of leases, effects and polls: it trusts neither the inbox nor the receiver.
 */
import {
  type Claim,
  type ClaimOptions,
  createdAtMs,
  type FailOptions,
  type Inbox,
  type InboxState,
  isKnownEvent,
  type Lease,
  type Origin,
  type Outcome,
  type RecordResult,
  type StoredEvent,
  type UnknownEvent,
} from 'stablehooks';
import type { PollState } from 'stablehooks/catch-up';
import type { Delivery } from './network.js';
import type { PromiseName } from './promise-list.js';
import { isHandled, keyOf, plannedOf, type Scenario } from './scenario.js';
import { type Process, toText, type World } from './world.js';

/** Situations that must occur for the promises to be tested. */
export const PRECONDITIONS: readonly string[] = [
  ...['handled', 'ignored', 'duplicate', 'parked', 'queued', 'dead', 'failed', 'busy', 'unavailable'].map(
    (kind) => `outcome: ${kind}`,
  ),
  ...[200, 202, 500, 503].map((status) => `a genuine delivery is answered ${status}`),
  'an effect happens once',
  'an effect happens again',
  'a lost lease changes nothing',
  'a handler hangs',
  'a handler asks for later',
  'a step is stored',
  'a handler runs beside a handler that has outlived its lease',
  'an overdue handler is done',
  'an overdue transaction is committed',
  'a process has no handler for an event that is new',
  'a process has no handler for an event that another one has to run',
  'a first attempt begins',
  'a first attempt is refused: its event is stored',
  'a first attempt is refused: its event runs',
  'a first attempt is done',
  'a failed first attempt is stored',
  'a failed first attempt finds its event',
  'a first attempt left nothing, and its event is found',
  'a process has no handler for an event that runs',
  'a poll finds an event that runs',
  'a server ends a transaction at its time limit',
  'events are redriven',
  'a redrive is ended by its signal',
  'an event waits for its key',
  'a key is released to the next event',
  'a poll proves its time',
  'a poll proves nothing new',
  'a watermark is saved',
  'a gap is saved',
  'an unseen event is in a gap',
  'an event is dead',
  'an event is parked',
  'a queue drops a job',
  'a receiver is closed',
  'a process is closed while its handlers run',
];

/** One claim of an event, or the transaction of its first attempt, and what became of it. */
export interface Attempt {
  readonly process: Process;
  readonly id: string;
  readonly token: string;
  readonly number: number;
  readonly key: string | undefined;
  /** Whether it is a first attempt, whose event is stored when it commits or has failed. */
  readonly isFirst: boolean;
  readonly leaseUntil: number;
  /** Whether the lease was completed, failed or given to another; for a first attempt, whether its transaction has ended. */
  isOver: boolean;
  /** Whether the server has ended its transaction. */
  isCut: boolean;
  isRunning: boolean;
  /** Whether its handler has ended without an error. */
  endedWell: boolean;
  /** Whether its handler has thrown `RetryLater`. */
  asksLater: boolean;
  startedAt: number | undefined;
  /** The work that its handler was started for. */
  origin: Origin | undefined;
  /** When it had its effect, permanently. */
  effectAt: number | undefined;
  isDone: boolean;
  /** Why its effect can happen again, as far as that is the fault of others. */
  excuse: string | undefined;
}

interface Tracked {
  readonly event: UnknownEvent;
  state: InboxState;
  readonly attempts: Attempt[];
  /** Attempts since it was received or requeued. */
  count: number;
  /** A failed event does not run before. */
  dueAt: number;
  /** It was given to a process that redrives, and is given to no other before. */
  takenUntil: number;
  /** Whether it waits for another event of its key; `due` once that has ended. */
  waits: 'no' | 'waits' | 'due';
  /** Whether a process without its handler recorded it as done. */
  isIgnored: boolean;
  /** Its ordering key, by the event itself. */
  readonly key: string | undefined;
  readonly number: number;
}

export class Promises {
  /** The events of the service, by id. */
  readonly genuine = new Map<string, UnknownEvent>();
  /** The events of the inbox, by id. */
  readonly stored = new Map<string, Tracked>();
  poll: { holder: string; leaseUntil: number; state: PollState | undefined } = {
    holder: '',
    leaseUntil: 0,
    state: undefined,
  };
  readonly #world: World;
  readonly #scenario: Scenario;
  readonly #attempts: Attempt[] = [];
  readonly #attemptsById = new Map<string, Attempt[]>();
  /** The events whose step is stored. */
  readonly #paid = new Set<string>();
  /** The token of the last attempt that has read the steps of an event. */
  readonly #stepsReadBy = new Map<string, string>();

  constructor(world: World, scenario: Scenario) {
    this.#world = world;
    this.#scenario = scenario;
  }

  #check(holds: boolean, promise: PromiseName, details: string, id?: string): void {
    if (!holds) this.#world.violate(promise, details, id);
  }

  answered({ id, isGenuine }: Delivery, status: number): void {
    const isAccepted = status >= 200 && status < 300;
    const details = `It was answered ${status}.`;
    if (!isGenuine) {
      this.#check(!isAccepted, 'nothing forged or corrupted is answered 2xx', details, id);
      return;
    }
    this.#world.count(`a genuine delivery is answered ${status}`);
    this.#check(isAccepted || status >= 500, 'a genuine delivery is answered 2xx or 5xx', details, id);
    if (!isAccepted) return;
    const state = this.stored.get(id ?? '')?.state;
    this.#check(
      status === 202 ? state !== undefined : isEnded(state),
      'what is answered 2xx is stored, and what is answered 200 needs no run',
      `It was answered ${status}, and the inbox has it as ${state ?? 'unknown'}.`,
      id,
    );
  }

  claimed(process: Process, event: UnknownEvent, options: ClaimOptions, claim: Claim): void {
    const { now } = this.#world;
    const { id } = event;
    const known = this.#track(event, claim.state === 'claimed' || claim.state === 'waiting');
    if (known === undefined) return;
    if (claim.state === 'waiting') {
      for (const attempt of known.attempts) this.#lapse(attempt);
      Object.assign(known, { state: 'received', waits: 'waits', takenUntil: 0 });
      this.#world.count('an event waits for its key');
      return;
    }
    if (claim.state !== 'claimed') return;
    const { lease } = claim;
    const { key, state } = known;
    const isToRun = state !== 'done' && state !== 'dead';
    this.#check(isToRun, 'what is done or dead is never claimed', `It is ${state}.`, id);
    const isEarly = state === 'failed' && known.dueAt > now + 1 && options.early !== true;
    const dueIn = `It is due in ${known.dueAt - now} ms.`;
    this.#check(!isEarly, 'a failed event does not run before its retry time', dueIn, id);
    const valid = this.#attempts.filter((each) => isValid(each, now));
    const rival = valid.find((each) => each.id === id);
    this.#check(rival === undefined, 'an event is leased once at a time', this.#describe(rival), id);
    if (key !== undefined) {
      const other = valid.find((each) => each.key === key);
      const promise = 'of the events of a key, one is leased at a time';
      this.#check(other === undefined, promise, this.#describe(other), id);
      // A lease of the key that has lapsed is lost, and its event waits.
      for (const each of this.#attempts) {
        const holder = this.stored.get(each.id);
        if (each.key !== key || each.isOver) continue;
        this.#lapse(each);
        if (each.id !== id && holder?.state === 'received') holder.waits = 'waits';
      }
    }
    const isNext = lease.attempt === known.count + 1;
    const counted = `${known.count} before, and this one is attempt ${lease.attempt}.`;
    this.#check(isNext, 'every claim counts as an attempt', counted, id);
    for (const each of known.attempts) this.#lapse(each);
    this.#addAttempt(process, lease, { key, leaseMs: options.leaseMs });
    Object.assign(known, { state: 'leased', count: lease.attempt, waits: 'no', takenUntil: 0 });
  }

  #addAttempt(
    process: Process,
    { id, token, attempt: number, first }: Lease,
    { key, leaseMs }: { readonly key?: string | undefined; readonly leaseMs: number },
  ): void {
    const attempt: Attempt = {
      ...{ process, id, token, number, key, isFirst: first !== undefined },
      leaseUntil: this.#world.now + leaseMs,
      isOver: false,
      isCut: false,
      isRunning: false,
      endedWell: false,
      asksLater: false,
      startedAt: undefined,
      origin: undefined,
      effectAt: undefined,
      isDone: false,
      excuse: undefined,
    };
    this.attemptsOf(id).push(attempt);
    this.#attempts.push(attempt);
  }

  /** The attempts at an event, stored or not. */
  attemptsOf(id: string): Attempt[] {
    const attempts = this.#attemptsById.get(id) ?? [];
    this.#attemptsById.set(id, attempts);
    return attempts;
  }

  /** The transaction of an attempt begins, or is refused. */
  begins(process: Process, lease: Lease, isBegun: boolean): void {
    const { id, first } = lease;
    if (first === undefined) return;
    const state = this.stored.get(id)?.state;
    const rival = this.#running(id);
    if (!isBegun) {
      this.#world.count(
        `a first attempt is refused: its event ${rival === undefined ? 'is stored' : 'runs'}`,
      );
      return;
    }
    const promise = 'an event is leased once at a time';
    this.#check(state === undefined, promise, `It is stored as ${state}.`, id);
    this.#check(rival === undefined, promise, this.#describe(rival), id);
    this.#addAttempt(process, lease, first);
    this.#world.count('a first attempt begins');
  }

  /** The first attempt whose transaction is open. */
  #running(id: string): Attempt | undefined {
    return this.attemptsOf(id).find(({ isFirst, isOver }) => isFirst && !isOver);
  }

  /** The server ends the transaction of an attempt. */
  cutOff(lease: Lease): void {
    const attempt = this.#attemptOf(lease);
    if (attempt !== undefined) attempt.isCut = true;
  }

  /** A transaction has ended without a commit. That of a first attempt was its lease. */
  rolledBack(lease: Lease): void {
    const attempt = this.#attemptOf(lease);
    if (attempt?.isFirst) attempt.isOver = true;
  }

  /** The inbox answered whether it completed an event; with a transaction, whether that was committed with its effects. */
  completed(lease: Lease, isCompleted: boolean, written: readonly Attempt[] = []): void {
    if (isCompleted) for (const attempt of written) this.takesEffect(attempt);
    if (isCompleted) this.#storeFirst(lease);
    const attempt = this.#endLease(lease, isCompleted, 'completes');
    const known = this.stored.get(lease.id);
    if (attempt === undefined || known === undefined) return;
    const { process, number, startedAt } = attempt;
    if (startedAt === undefined && !isHandled(known.event, process.lacks)) {
      this.#check(
        !isHandled(known.event) || (this.#scenario.hasQueue && number === 1),
        'what another process has to run is not done without its handler',
        `${process.name} has no handler for it, and completes it in attempt ${number}.`,
        lease.id,
      );
      known.isIgnored = true;
    }
    if (this.#world.now - (startedAt ?? this.#world.now) > this.#scenario.receiver.handlerTimeoutMs) {
      this.#world.count('an overdue handler is done');
      if (this.#isExactlyOnce) this.#world.count('an overdue transaction is committed');
    }
    attempt.isDone = true;
    if (attempt.isFirst) this.#world.count('a first attempt is done');
    known.state = 'done';
    this.#release(attempt);
  }

  /** The event of a first attempt is stored. */
  #storeFirst({ id, first }: Lease): void {
    if (first === undefined) return;
    const before = this.stored.get(id)?.state;
    this.#check(before === undefined, 'an event is new once', `It was ${before}.`, id);
    const known = this.#track(JSON.parse(first.json), true);
    if (known !== undefined) known.count = 1;
  }

  /** The inbox answered whether it recorded a failure. */
  failed(lease: Lease, { retryAfterMs, later }: FailOptions, isRecorded: boolean | 'dead'): void {
    const attempt =
      lease.first === undefined
        ? this.#endLease(lease, isRecorded !== false, 'fails')
        : this.#failFirst(lease, isRecorded !== false);
    const known = this.stored.get(lease.id);
    if (attempt === undefined || known === undefined) return;
    const { startedAt, leaseUntil } = attempt;
    // A transaction that could not begin is tried again later, and what was cut off has failed whatever its handler throws.
    const isFree = startedAt === undefined || attempt.isCut || this.#world.now >= leaseUntil;
    this.#check(
      isFree || attempt.asksLater === (later !== undefined),
      'a handler that asks for later has not failed',
      `Its handler ${attempt.asksLater ? 'asked' : 'did not ask'} for later.`,
      lease.id,
    );
    const isDead = retryAfterMs === null || isRecorded === 'dead';
    if (later !== undefined && !isDead) known.count -= 1;
    known.state = isDead ? 'dead' : later === undefined ? 'failed' : 'received';
    known.dueAt = this.#world.now + (retryAfterMs ?? 0);
    this.#release(attempt);
  }

  /** After its transaction, a first attempt is stored unless its event was stored or runs meanwhile. */
  #failFirst(lease: Lease, isRecorded: boolean): Attempt | undefined {
    const { id } = lease;
    const isFree = !this.stored.has(id) && this.#running(id) === undefined;
    const state = this.stored.get(id)?.state ?? 'running';
    this.#check(isFree || !isRecorded, 'a lost lease changes nothing', `It was ${state}.`, id);
    this.#check(isRecorded || !isFree, 'a valid lease completes or fails its event', 'It is not stored.', id);
    this.#world.count(
      isRecorded ? 'a failed first attempt is stored' : 'a failed first attempt finds its event',
    );
    const attempt = this.#attemptOf(lease);
    if (!isRecorded || attempt === undefined) return undefined;
    this.#checkEnded(attempt);
    this.#storeFirst(lease);
    return attempt;
  }

  /** The step of a handler begins. */
  pays({ id }: Attempt): void {
    const isPaid = this.#paid.has(id);
    this.#check(!isPaid, 'a step that is stored does not run again', 'Its result is in the inbox.', id);
  }

  /** The inbox answered with the steps of an attempt. */
  stepsRead({ id, token }: Lease): void {
    this.#stepsReadBy.set(id, token);
  }

  /** The inbox answered whether it stored the step of an attempt. */
  stepSaved(lease: Lease, isSaved: boolean): void {
    const attempt = this.#attemptOf(lease);
    if (!isSaved || attempt === undefined) return;
    const { id, token, isFirst, isOver } = attempt;
    // After a first attempt its steps are its own until the event is stored, or the next one reads them.
    const isLost = isFirst ? this.stored.has(id) || this.#stepsReadBy.get(id) !== token : isOver;
    this.#check(!isLost, 'a lost lease stores no step', this.#describe(attempt), id);
    this.#paid.add(lease.id);
    this.#world.count('a step is stored');
  }

  /** The mark of an attempt did not take effect, because the inbox failed. */
  notMarked(lease: Lease): void {
    const attempt = this.#attemptOf(lease);
    if (attempt !== undefined) attempt.excuse ??= 'the inbox failed';
  }

  transactionEnds(lease: Lease, isCommit: boolean): void {
    const attempt = this.#attemptOf(lease);
    if (attempt === undefined) return;
    const promise = 'a transaction lives as long as its handler';
    this.#check(!attempt.isRunning, promise, 'It ends, and its handler runs.', lease.id);
    this.#check(isCommit || !attempt.endedWell, promise, 'Its handler ended well: it rolls back.', lease.id);
  }

  recorded(
    events: readonly UnknownEvent[],
    { dueInMs, origin }: Pick<Parameters<Inbox['record']>[1], 'dueInMs' | 'origin'>,
    results: readonly RecordResult[],
  ): void {
    for (const [index, event] of events.entries()) {
      if (results[index] === 'running' && origin === 'pull')
        this.#world.count('a poll finds an event that runs');
      const known = this.#trackNew(event, results[index]);
      if (known === undefined || dueInMs !== null) continue;
      known.state = 'parked';
      const details = `Its type is ${event.type}.`;
      this.#check(!isKnownEvent(event), 'only unknown types are parked', details, event.id);
    }
  }

  /** A process has recorded events that it has no handler for. */
  ignored(process: Process, events: readonly UnknownEvent[], results: readonly RecordResult[]): void {
    for (const [index, event] of events.entries()) {
      const before = this.stored.get(event.id);
      const isToRun = before !== undefined && !isEnded(before.state);
      if (isToRun) this.#world.count('a process has no handler for an event that another one has to run');
      if (results[index] === 'running') this.#world.count('a process has no handler for an event that runs');
      this.#check(
        !isToRun || results[index] !== 'done',
        'what another process has to run is not done without its handler',
        `It was ${before?.state}.`,
        event.id,
      );
      const known = this.#trackNew(event, results[index]);
      if (known === undefined) continue;
      if (isHandled(event)) this.#world.count('a process has no handler for an event that is new');
      known.state = 'done';
      known.isIgnored = !isHandled(event, process.lacks);
    }
  }

  /** Tracks an event that the inbox says is new; `undefined` for another. */
  #trackNew(event: UnknownEvent, result: RecordResult | undefined): Tracked | undefined {
    if (result === 'running') return undefined;
    const before = this.stored.get(event.id);
    this.#check(
      (result === 'new') === (before === undefined),
      'an event is new once',
      `The inbox says ${result}, and it was ${before?.state ?? 'not there'}.`,
      event.id,
    );
    const known = this.#track(event, true);
    return before === undefined ? known : undefined;
  }

  taken(
    process: Process,
    taken: readonly StoredEvent[],
    { limit, visibilityTimeoutMs, types }: Parameters<Inbox['takeDue']>[0],
  ): void {
    const { now } = this.#world;
    for (const { id, json } of taken) {
      const event: UnknownEvent = JSON.parse(json);
      const known = this.#track(event, false);
      if (known === undefined) continue;
      const isOwn = this.#scenario.hasQueue ? isKnownEvent(event) : isHandled(event, process.lacks);
      const own = 'a process redrives only what it has a handler or a queue for';
      this.#check(isOwn, own, `Its type is ${event.type}.`, id);
      for (const attempt of known.attempts) {
        const isLeased = isValid(attempt, now);
        this.#check(!isLeased, 'what is leased is not redriven', this.#describe(attempt), id);
        this.#lapse(attempt);
      }
      const { state } = known;
      const isToRun = state !== 'done' && state !== 'dead';
      this.#check(isToRun, 'what is done or dead is not redriven', `It is ${state}.`, id);
      const isEarly = state === 'failed' && known.dueAt > now + 1;
      this.#check(!isEarly, 'a failed event does not run before its retry time', 'It was redriven.', id);
      const forMs = known.takenUntil - now;
      this.#check(forMs <= 0, 'what one process redrives is given to no other', `For ${forMs} ms more.`, id);
      Object.assign(known, { state: 'received', waits: 'no', takenUntil: now + visibilityTimeoutMs });
    }
    if (taken.length > 0) this.#world.count('events are redriven');
    if (taken.length >= limit) return;
    for (const known of this.stored.values()) {
      const isMissing = known.waits === 'due' && types.includes(known.event.type);
      const promise = 'the next event of a key is due when the one before has ended';
      this.#check(!isMissing, promise, 'There was room.', known.event.id);
    }
  }

  enqueued({ id }: UnknownEvent): void {
    const details = 'A queue can drop a job that fails too often: the inbox must have its event.';
    this.#check(this.stored.has(id), 'an event is recorded before it is enqueued', details, id);
  }

  pollLeased(holder: string, leaseMs: number, isLeased: boolean): void {
    if (!isLeased) return;
    const { now } = this.#world;
    this.#check(
      this.poll.holder === holder || this.poll.leaseUntil <= now,
      'one process polls at a time',
      `${this.poll.holder} has the poll lease for ${this.poll.leaseUntil - now} ms more, and ${holder} got it.`,
    );
    this.poll = { ...this.poll, holder, leaseUntil: now + leaseMs };
  }

  pollSaved(text: string, fence: { readonly holder: string } | undefined, isSaved: boolean): void {
    if (!isSaved) return;
    const promise = 'only the holder of the poll lease saves its state';
    this.#check(this.poll.holder === fence?.holder, promise, `${fence?.holder} saved it.`);
    const state: PollState = JSON.parse(text);
    this.poll = { ...this.poll, state };
    this.#checkProven(state);
  }

  /** Every event of a known type that was created up to the watermark is in the inbox, except in the gaps. */
  #checkProven(state: PollState): void {
    const { watermark, gaps } = state;
    if (watermark === null) return;
    this.#world.count('a watermark is saved');
    if (gaps.length > 0) this.#world.count('a gap is saved');
    for (const event of this.genuine.values()) {
      const at = createdAtMs(event);
      if (!isKnownEvent(event) || this.stored.has(event.id)) continue;
      if (at > watermark || at < (state.since ?? Number.NEGATIVE_INFINITY)) continue;
      const isExpected = isInGap(state, event);
      if (isExpected) this.#world.count('an unseen event is in a gap');
      this.#check(
        isExpected,
        'what is proven is in the inbox',
        `It was created ${watermark - at} ms before the watermark and is in no gap.`,
        event.id,
      );
    }
  }

  /** Called with each outcome of a receiver. */
  concluded({ kind, event, error }: Outcome): void {
    // Every option is right, so this is an unexpected error.
    const isExpected = error?.code !== 'ERR_CONFIG_INVALID';
    const reason = isExpected ? '' : toText(error.cause ?? error);
    this.#check(isExpected, 'no outcome is an unexpected error', reason, event?.id);
    if (event === undefined) return;
    this.#world.count(`outcome: ${kind}`);
    const known = this.stored.get(event.id);
    const isDone = known?.state === 'done';
    const expected: Partial<Record<Outcome['kind'], boolean>> = {
      handled: isDone,
      ignored: isDone,
      duplicate: isDone,
      dead: known?.state === 'dead',
      parked: known !== undefined,
      queued: known !== undefined,
    };
    this.#check(
      expected[kind] ?? true,
      'an outcome says what the inbox has',
      `The outcome is ${kind}, and the inbox has it as ${known?.state ?? 'unknown'}.`,
      event.id,
    );
    const isLost = kind === 'queued' && this.#scenario.inbox === 'plain';
    this.#check(!isLost, 'an event is queued only where it is durable', 'Only memory has it.', event.id);
  }

  starts(
    process: Process,
    event: UnknownEvent,
    {
      number,
      origin,
      token,
    }: { readonly number: number; readonly origin: Origin; readonly token: string | undefined },
  ): Attempt | undefined {
    this.#checkGenuine(event);
    const { now } = this.#world;
    const attempt = this.attemptsOf(event.id).findLast(
      (each) => each.process === process && each.number === number && each.token === (token ?? each.token),
    );
    const promise = 'a handler runs once under a claim';
    this.#check(attempt !== undefined, promise, `${process.name} runs it without one.`, event.id);
    if (attempt === undefined) return undefined;
    for (const other of this.#attempts) {
      const isRival = other.id === event.id || (attempt.key !== undefined && other.key === attempt.key);
      // A first attempt has its event as long as its connection.
      if (!isRival || !other.isRunning || other.process.ended || (other.isFirst && other.isCut)) continue;
      this.#world.count('a handler runs beside a handler that has outlived its lease');
      this.#check(
        now >= other.leaseUntil || now >= attempt.leaseUntil,
        'no two handlers of an event or a key run at the same time',
        `It runs already. ${this.#describe(other)}`,
        event.id,
      );
    }
    const isFirst = attempt.startedAt === undefined;
    this.#check(isFirst, promise, `${process.name} has run it under this one.`, event.id);
    Object.assign(attempt, { startedAt: now, isRunning: true, origin });
    return attempt;
  }

  /** A handler has its effect: in a transaction, when it is committed. */
  takesEffect(attempt: Attempt): void {
    const { now } = this.#world;
    const { id } = attempt;
    const earlier = this.attemptsOf(id).filter((each) => each.effectAt !== undefined);
    attempt.effectAt = now;
    if (earlier.length === 0) return;
    if (this.#isExactlyOnce) {
      const details = `It happened ${earlier.length} times before.`;
      this.#check(false, 'in a transactional inbox an effect happens once', details, id);
      return;
    }
    this.#world.count('an effect happens again');
    // It is the overdue one: another process runs the event, as documented.
    if (now >= attempt.leaseUntil) return;
    const wrong = earlier.find((each) => this.#excuseOf(each) === undefined);
    this.#check(
      wrong === undefined,
      'an effect happens again only if its process died, its mark failed, its handler threw, or it outlived its lease',
      `Attempt ${wrong?.number} in ${wrong?.process.name} had its effect ${now - (wrong?.effectAt ?? 0)} ms ago, ${wrong?.isDone ? 'and is done' : 'and is not done'}.`,
      id,
    );
  }

  get #isExactlyOnce(): boolean {
    return this.#scenario.inbox === 'transactional';
  }

  #excuseOf(attempt: Attempt): string | undefined {
    if (attempt.isDone) return undefined;
    if (attempt.excuse !== undefined) return attempt.excuse;
    // Its lease did not lapse: it was ended by its process.
    if (attempt.isOver) return undefined;
    if (attempt.process.ended) return 'its process ended';
    return this.#world.now >= attempt.leaseUntil ? 'it outlived its lease' : undefined;
  }

  /** Whether handlers run in time that a redrive of the process has started. */
  redrives(process: Process): boolean {
    const since = this.#world.now - this.#scenario.receiver.handlerTimeoutMs;
    const isRedriven = ({ origin, startedAt = 0 }: Attempt) => origin === 'redrive' && startedAt >= since;
    return this.#attempts.some((each) => each.process === process && each.isRunning && isRedriven(each));
  }

  /** Whether handlers of a process run that its receivers have to wait for. */
  runs(process: Process): boolean {
    return this.#runningIn(process) !== undefined;
  }

  /** The receivers of a process have closed, before the time was over that they wait at most. */
  closed(process: Process): void {
    const attempt = this.#runningIn(process);
    const promise = 'when close() has resolved in time, no handler runs';
    this.#check(attempt === undefined, promise, this.#describe(attempt), attempt?.id);
  }

  #runningIn(process: Process): Attempt | undefined {
    const { now } = this.#world;
    return this.#attempts.find((each) => each.process === process && each.isRunning && now < each.leaseUntil);
  }

  /** Open work, as an event's id and the reason. Empty if every promise about the end holds. */
  *unfinished(): Generator<{ readonly id: string; readonly why: string }> {
    const { state } = this.poll;
    for (const [id, event] of this.genuine) {
      const known = this.stored.get(id);
      if (known !== undefined) {
        if (!isEnded(known.state)) yield { id, why: `it is ${known.state}` };
      } else if (this.#scenario.poller !== null && isKnownEvent(event)) {
        const at = createdAtMs(event);
        const watermark = state?.watermark ?? null;
        if (watermark === null) yield { id, why: 'no poll has read the list' };
        else if (at >= (state?.since ?? Number.NEGATIVE_INFINITY) && watermark < at) {
          yield { id, why: 'no poll has proven its time' };
        }
      }
    }
  }

  /** The promises about the end: each event has had its effect, or is dead with what shows for it. */
  checkEnd(): void {
    const { inbox, receiver } = this.#scenario;
    const maxAttempts = inbox === 'plain' ? Number.POSITIVE_INFINITY : receiver.maxAttempts;
    for (const [id, { event, state, attempts, count, isIgnored }] of this.stored) {
      this.#checkGenuine(event);
      const effects = attempts.filter((each) => each.effectAt !== undefined).length;
      const isToRun = isHandled(event) && !isIgnored;
      const isEmpty = state === 'done' && effects === 0;
      this.#check(!isEmpty || !isToRun, 'what is done has had its effect', 'It had none.', id);
      if (state === 'done' && effects === 1) this.#world.count('an effect happens once');
      const hasLeft = state === 'dead' && !plannedOf(this.#scenario, event).permanent && count < maxAttempts;
      this.#check(
        !hasLeft,
        'what is dead has used up its attempts',
        `It had ${count} of ${maxAttempts}.`,
        id,
      );
      if (state === 'dead' || state === 'parked') this.#world.count(`an event is ${state}`);
    }
  }

  /** The known event, or the event as it is already stored. */
  #track(event: UnknownEvent, isStored: boolean): Tracked | undefined {
    this.#checkGenuine(event);
    const known = this.stored.get(event.id);
    if (known !== undefined || !isStored) return known;
    if (this.attemptsOf(event.id).some((each) => each.process.ended))
      this.#world.count('a first attempt left nothing, and its event is found');
    const tracked: Tracked = {
      event,
      state: 'received',
      attempts: this.attemptsOf(event.id),
      count: 0,
      dueAt: 0,
      takenUntil: 0,
      waits: 'no',
      isIgnored: false,
      key: isKnownEvent(event) ? keyOf(this.#scenario, event) : undefined,
      number: this.stored.size,
    };
    this.stored.set(event.id, tracked);
    return tracked;
  }

  #checkGenuine(event: UnknownEvent): void {
    const genuine = this.genuine.get(event.id);
    const isSame =
      genuine !== undefined &&
      genuine.type === event.type &&
      genuine.created_at === event.created_at &&
      JSON.stringify(genuine.payload) === JSON.stringify(event.payload);
    const details = isSame ? '' : JSON.stringify(event);
    this.#check(isSame, 'nothing forged or corrupted gets into the inbox', details, event.id);
  }

  /** A lease that has lapsed is given to another. */
  #lapse(attempt: Attempt): void {
    if (attempt.isOver) return;
    attempt.isOver = true;
    attempt.excuse ??= 'it outlived its lease';
    const known = this.stored.get(attempt.id);
    if (known?.state === 'leased') known.state = 'received';
  }

  #attemptOf({ id, token }: Lease): Attempt | undefined {
    return this.attemptsOf(id).find((each) => each.token === token);
  }

  #endLease(lease: Lease, isEnded: boolean, what: string): Attempt | undefined {
    const { now } = this.#world;
    const { id } = lease;
    const attempt = this.#attemptOf(lease);
    if (attempt === undefined) {
      this.#check(!isEnded, 'a lost lease changes nothing', 'Its token was never given.', id);
      return undefined;
    }
    const { process } = attempt;
    if (!isEnded) {
      this.#check(
        attempt.isOver || now >= attempt.leaseUntil,
        'a valid lease completes or fails its event',
        `${process.name} ${what} it, and the inbox says that its lease is lost. ${this.#describe(attempt)}`,
        id,
      );
      this.#world.count('a lost lease changes nothing');
      if (now >= attempt.leaseUntil) attempt.excuse ??= 'it outlived its lease';
      attempt.isOver = true;
      return undefined;
    }
    const by = `${process.name} ${what} it.`;
    this.#check(!attempt.isOver, 'a lost lease changes nothing', `Its token was replaced or used. ${by}`, id);
    this.#checkEnded(attempt);
    attempt.isOver = true;
    return attempt;
  }

  #checkEnded(attempt: Attempt): void {
    const { id, process, isRunning, leaseUntil } = attempt;
    const isBeside = isRunning && !process.ended && this.#world.now < leaseUntil;
    const details = `${process.name} ends its attempt.`;
    this.#check(!isBeside, 'an event stays claimed while its handler runs', details, id);
  }

  /** The end of an attempt makes the event due that waits for its key and was created first. */
  #release({ key }: Attempt): void {
    if (key === undefined) return;
    const waiting = [...this.stored.values()].filter((each) => each.key === key && each.waits === 'waits');
    const [first] = waiting.sort(inOrder);
    if (first === undefined) return;
    first.waits = 'due';
    this.#world.count('a key is released to the next event');
  }

  #describe(attempt: Attempt | undefined): string {
    if (attempt === undefined) return '';
    const { process, id, leaseUntil } = attempt;
    return `${process.name} has the lease of ${id} for ${leaseUntil - this.#world.now} ms more.`;
  }
}

function inOrder(a: Tracked, b: Tracked): number {
  return createdAtMs(a.event) - createdAtMs(b.event) || a.number - b.number;
}

function isValid(attempt: Attempt, now: number): boolean {
  return !attempt.isOver && attempt.leaseUntil > now;
}

/** Whether nothing more has to run. */
function isEnded(state: InboxState | undefined): boolean {
  return state === 'done' || state === 'dead' || state === 'parked';
}

function isInGap({ gaps }: PollState, event: UnknownEvent): boolean {
  const at = createdAtMs(event);
  return gaps.some(({ from, until }) => at > from && at <= (until[event.type] ?? Number.NEGATIVE_INFINITY));
}
