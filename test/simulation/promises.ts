/**
 * The promises of the package, checked while a world runs. It sees every change of the stores at the moment when it takes
 * effect, and keeps its own account of leases, effects and polls: it trusts neither the inbox nor the receiver.
 */
import {
  type Claim,
  type ClaimOptions,
  createdAtMs,
  isKnownEvent,
  type Lease,
  type Outcome,
  type PollState,
  type RecordResult,
  type UnknownEvent,
} from 'stablehooks';
import type { Delivery } from './network.js';
import { type Process, toText, type World } from './world.js';

/** What has to occur, so that the promises are put to a test. */
export const PRECONDITIONS: readonly string[] = [
  ...['handled', 'ignored', 'duplicate', 'parked', 'queued', 'dead', 'failed', 'busy', 'unavailable'].map(
    (kind) => `outcome: ${kind}`,
  ),
  ...[200, 202, 500, 503].map((status) => `a genuine delivery is answered ${status}`),
  'an effect happens once',
  'an effect happens again',
  'a lost lease changes nothing',
  'a handler hangs',
  'a handler runs beside one that has outlived its lease',
  'events are redriven',
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

/** One claim of an event, and what became of it. */
export interface Attempt {
  readonly process: Process;
  readonly id: string;
  readonly token: string;
  readonly number: number;
  readonly key: string | undefined;
  readonly leaseUntil: number;
  /** Whether the lease was completed, failed or given to another. */
  isOver: boolean;
  /** Whether its handler runs. */
  isRunning: boolean;
  startedAt: number | undefined;
  /** When it had its effect, for good. */
  effectAt: number | undefined;
  isDone: boolean;
  /** Why its effect can happen again, as far as that is the fault of others. */
  excuse: string | undefined;
}

interface Tracked {
  readonly event: UnknownEvent;
  state: 'received' | 'leased' | 'failed' | 'done' | 'dead' | 'parked';
  readonly attempts: Attempt[];
  /** Attempts since it was received or requeued. */
  count: number;
  /** A failed event does not run before. */
  dueAt: number;
  /** It was given to somebody who redrives, and is given to nobody else before. */
  takenUntil: number;
  /** Whether it waits for another event of its key; `due` once that has ended. */
  waits: 'no' | 'waits' | 'due';
  /** Its ordering key, by the event itself. */
  readonly key: string | undefined;
  readonly number: number;
}

export class Promises {
  /** What the service has created, by id. */
  readonly genuine = new Map<string, UnknownEvent>();
  /** What the inbox has, by id. */
  readonly stored = new Map<string, Tracked>();
  poll: { holder: string; leaseUntil: number; state: PollState | undefined } = {
    holder: '',
    leaseUntil: 0,
    state: undefined,
  };
  readonly #world: World;
  readonly #exactlyOnce: boolean;
  readonly #isPolled: boolean;
  readonly #keyOf: (event: UnknownEvent) => string | undefined;
  readonly #attempts: Attempt[] = [];

  constructor(
    world: World,
    {
      exactlyOnce,
      isPolled,
      keyOf,
    }: {
      readonly exactlyOnce: boolean;
      readonly isPolled: boolean;
      /** The ordering key of an event. */
      readonly keyOf: (event: UnknownEvent) => string | undefined;
    },
  ) {
    this.#world = world;
    this.#isPolled = isPolled;
    this.#exactlyOnce = exactlyOnce;
    this.#keyOf = keyOf;
  }

  /** A process has answered a delivery. */
  answered({ id, isGenuine }: Delivery, status: number): void {
    const isAccepted = status >= 200 && status < 300;
    if (!isGenuine) {
      if (isAccepted) {
        this.#world.violate('nothing forged or corrupted is answered 2xx', `It was answered ${status}.`, id);
      }
      return;
    }
    this.#world.count(`a genuine delivery is answered ${status}`);
    if (!isAccepted && status < 500) {
      this.#world.violate('a genuine delivery is answered 2xx or 5xx', `It was answered ${status}.`, id);
    }
    if (!isAccepted) return;
    const state = this.stored.get(id ?? '')?.state;
    const isTrue = status === 202 ? state !== undefined : isEnded(state);
    if (isTrue) return;
    this.#world.violate(
      'what is answered 2xx is stored, and what is answered 200 needs no run',
      `It was answered ${status}, and the inbox has it as ${state ?? 'unknown'}.`,
      id,
    );
  }

  /** The answer to a claim. */
  claimed(process: Process, event: UnknownEvent, options: ClaimOptions, claim: Claim): void {
    const { now } = this.#world;
    const known = this.#track(event, claim.state === 'claimed' || claim.state === 'waiting');
    if (known === undefined) return;
    if (claim.state === 'waiting') {
      for (const attempt of known.attempts) this.#lapse(attempt);
      known.state = 'received';
      known.waits = 'waits';
      known.takenUntil = 0;
      this.#world.count('an event waits for its key');
      return;
    }
    if (claim.state !== 'claimed') return;
    const { lease } = claim;
    if (known.state === 'done' || known.state === 'dead') {
      this.#world.violate('what is done or dead is never claimed', `It is ${known.state}.`, event.id);
    }
    if (known.state === 'failed' && known.dueAt > now + 1 && options.early !== true) {
      this.#world.violate(
        'a failed event does not run before its retry time',
        `It is due in ${known.dueAt - now} ms.`,
        event.id,
      );
    }
    const { key } = known;
    const rival = this.#attempts.find((other) => isValid(other, now) && other.id === event.id);
    if (rival !== undefined) {
      this.#world.violate(
        'an event is leased once at a time',
        `${rival.process.name} has its lease for ${rival.leaseUntil - now} ms more.`,
        event.id,
      );
    }
    if (key !== undefined) {
      const other = this.#attempts.find((each) => isValid(each, now) && each.key === key);
      if (other !== undefined) {
        this.#world.violate(
          'of the events of a key, one is leased at a time',
          `${other.process.name} has the lease of ${other.id} for ${other.leaseUntil - now} ms more.`,
          event.id,
        );
      }
      // A lease of the key that has lapsed is lost.
      for (const each of this.#attempts) if (each.key === key) this.#lapse(each);
    }
    if (lease.attempt !== known.count + 1) {
      this.#world.violate(
        'every claim counts as an attempt',
        `It is attempt ${known.count + 1}, and the inbox says ${lease.attempt}.`,
        event.id,
      );
    }
    for (const each of known.attempts) this.#lapse(each);
    const attempt: Attempt = {
      process,
      id: event.id,
      token: lease.token,
      number: lease.attempt,
      key,
      leaseUntil: now + options.leaseMs,
      isOver: false,
      isRunning: false,
      startedAt: undefined,
      effectAt: undefined,
      isDone: false,
      excuse: undefined,
    };
    known.attempts.push(attempt);
    this.#attempts.push(attempt);
    Object.assign(known, { state: 'leased', count: lease.attempt, waits: 'no', takenUntil: 0 });
  }

  /** The inbox answered whether it completed an event; in a transaction, whether that was committed. */
  completed(lease: Lease, isCompleted: boolean): void {
    const attempt = this.#endLease(lease, isCompleted, 'completes');
    if (attempt === undefined) return;
    attempt.isDone = true;
    this.#change(lease.id, { state: 'done' });
    this.#release(attempt);
  }

  /** The inbox answered whether it recorded a failure. */
  failed(lease: Lease, retryAfterMs: number | null, isRecorded: boolean): void {
    const attempt = this.#endLease(lease, isRecorded, 'fails');
    if (attempt === undefined) return;
    this.#change(lease.id, {
      state: retryAfterMs === null ? 'dead' : 'failed',
      dueAt: this.#world.now + (retryAfterMs ?? 0),
    });
    this.#release(attempt);
  }

  /** The mark of an attempt did not take effect, because the inbox failed. */
  notMarked({ id, token }: Lease): void {
    const attempt = this.stored.get(id)?.attempts.find((each) => each.token === token);
    if (attempt !== undefined) attempt.excuse ??= 'the inbox failed';
  }

  recorded(
    events: readonly UnknownEvent[],
    { dueInMs }: { readonly dueInMs: number | null },
    results: readonly RecordResult[],
  ): void {
    for (const [index, event] of events.entries()) {
      const before = this.stored.get(event.id);
      const result = results[index];
      if ((result === 'new') === (before !== undefined)) {
        this.#world.violate(
          'an event is new once',
          `The inbox says ${result}, and it was ${before?.state ?? 'not there'}.`,
          event.id,
        );
      }
      const known = this.#track(event, true);
      if (before !== undefined || known === undefined) continue;
      if (dueInMs !== null) continue;
      known.state = 'parked';
      if (!isKnownEvent(event)) continue;
      this.#world.violate('only unknown types are parked', `Its type is ${event.type}.`, event.id);
    }
  }

  taken(
    events: readonly { readonly event: UnknownEvent }[],
    { limit, visibilityTimeoutMs }: { readonly limit: number; readonly visibilityTimeoutMs: number },
  ): void {
    const { now } = this.#world;
    const keys = new Set<string>();
    for (const { event } of events) {
      const known = this.#track(event, false);
      if (known === undefined) continue;
      for (const attempt of known.attempts) {
        if (isValid(attempt, now)) {
          this.#world.violate(
            'what is leased is not redriven',
            `${attempt.process.name} has its lease for ${attempt.leaseUntil - now} ms more.`,
            event.id,
          );
        }
        this.#lapse(attempt);
      }
      if (known.state === 'done' || known.state === 'dead') {
        this.#world.violate('what is done or dead is not redriven', `It is ${known.state}.`, event.id);
      }
      if (known.state === 'failed' && known.dueAt > now + 1) {
        this.#world.violate(
          'a failed event does not run before its retry time',
          'It was redriven.',
          event.id,
        );
      }
      if (known.takenUntil > now) {
        this.#world.violate(
          'what one process redrives is given to no other',
          `It was given to another, for ${known.takenUntil - now} ms more.`,
          event.id,
        );
      }
      const { key } = known;
      if (key !== undefined) {
        if (keys.has(key)) {
          this.#world.violate('of the events of a key, one is redriven at a time', `Key ${key}.`, event.id);
        }
        keys.add(key);
      }
      Object.assign(known, { state: 'received', waits: 'no', takenUntil: now + visibilityTimeoutMs });
    }
    if (events.length > 0) this.#world.count('events are redriven');
    if (events.length >= limit) return;
    for (const known of this.stored.values()) {
      if (known.waits !== 'due') continue;
      // It was passed over, and waits for the event that holds its key now.
      if (this.#isKeyHeld(known.key)) known.waits = 'waits';
      else {
        this.#world.violate(
          'the next event of a key is due when the one before has ended',
          'It was not redriven, although there was room.',
          known.event.id,
        );
      }
    }
  }

  enqueued(event: UnknownEvent): void {
    if (!this.stored.has(event.id)) {
      this.#world.violate(
        'an event is recorded before it is enqueued',
        'A queue can drop a job that fails too often: the inbox must have its event.',
        event.id,
      );
    }
  }

  pollAcquired(holder: string, leaseMs: number, state: PollState | null): void {
    if (state === null) return;
    const { now } = this.#world;
    if (this.poll.holder !== holder && this.poll.leaseUntil > now) {
      this.#world.violate(
        'one process polls at a time',
        `${this.poll.holder} has the lease to poll for ${this.poll.leaseUntil - now} ms more, and ${holder} got it.`,
      );
    }
    this.poll = { ...this.poll, holder, leaseUntil: now + leaseMs };
  }

  pollSaved(
    state: PollState,
    { holder, leaseMs }: { readonly holder: string; readonly leaseMs: number },
    isSaved: boolean,
  ): void {
    if (!isSaved) return;
    if (this.poll.holder !== holder) {
      this.#world.violate('only who has the lease to poll saves its state', `${holder} saved it.`);
    }
    this.poll = { holder, leaseUntil: this.#world.now + leaseMs, state };
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
      if (isInGap(state, event)) this.#world.count('an unseen event is in a gap');
      else {
        this.#world.violate(
          'what is proven is in the inbox',
          `It was created ${watermark - at} ms before the watermark and is in no gap.`,
          event.id,
        );
      }
    }
  }

  /** Called with each outcome of a receiver. */
  concluded({ kind, event, error }: Outcome): void {
    // Every option is right, so that this is an error that nobody has thought of.
    if (error?.code === 'ERR_CONFIG_INVALID') {
      this.#world.violate('no outcome is an unexpected error', toText(error.cause ?? error), event?.id);
    }
    if (event === undefined) return;
    this.#world.count(`outcome: ${kind}`);
    const known = this.stored.get(event.id);
    const isDone = known?.state === 'done';
    const isTrue = {
      handled: isDone,
      ignored: isDone,
      duplicate: isDone,
      dead: known?.state === 'dead',
      parked: known !== undefined,
      queued: known !== undefined,
    };
    if (!(kind in isTrue)) return;
    if (isTrue[kind as keyof typeof isTrue]) return;
    this.#world.violate(
      'an outcome says what the inbox has',
      `The outcome is ${kind}, and the inbox has it as ${known?.state ?? 'unknown'}.`,
      event.id,
    );
  }

  /** A handler starts. Returns its attempt. */
  starts(process: Process, event: UnknownEvent, number: number): Attempt | undefined {
    this.#checkGenuine(event);
    const { now } = this.#world;
    const attempt = this.stored
      .get(event.id)
      ?.attempts.findLast((each) => each.process === process && each.number === number);
    if (attempt === undefined) {
      this.#world.violate(
        'a handler runs once under a claim',
        `${process.name} runs it without one.`,
        event.id,
      );
      return undefined;
    }
    for (const other of this.#attempts) {
      const isRival = other.id === event.id || (attempt.key !== undefined && other.key === attempt.key);
      if (!isRival || !other.isRunning || other.process.ended) continue;
      this.#world.count('a handler runs beside one that has outlived its lease');
      if (now < other.leaseUntil && now < attempt.leaseUntil) {
        this.#world.violate(
          'no two handlers of an event or a key run at once',
          `${other.process.name} runs ${other.id}, under a lease of ${other.leaseUntil - now} ms more.`,
          event.id,
        );
      }
    }
    if (attempt.startedAt !== undefined) {
      this.#world.violate(
        'a handler runs once under a claim',
        `${process.name} has run it under this one.`,
        event.id,
      );
    }
    attempt.startedAt = now;
    attempt.isRunning = true;
    return attempt;
  }

  /** A handler has its effect: in a transaction, when it is committed. */
  takesEffect(attempt: Attempt): void {
    const { now } = this.#world;
    const { id } = attempt;
    const earlier = this.stored.get(id)?.attempts.filter((each) => each.effectAt !== undefined) ?? [];
    attempt.effectAt = now;
    if (earlier.length === 0) return;
    if (this.#exactlyOnce) {
      this.#world.violate(
        'in a transactional inbox an effect happens once',
        `It happened ${earlier.length} times before.`,
        id,
      );
      return;
    }
    this.#world.count('an effect happens again');
    // It is the late one: another process runs the event, as documented.
    if (now >= attempt.leaseUntil) return;
    const wrong = earlier.find((each) => this.#excuseOf(each) === undefined);
    if (wrong === undefined) return;
    this.#world.violate(
      'an effect happens again only if its process died, its mark failed, its handler threw, or it outlived its lease',
      `Attempt ${wrong.number} in ${wrong.process.name} had its effect ${now - (wrong.effectAt ?? 0)} ms ago, ${wrong.isDone ? 'and is done' : 'and is not done'}.`,
      id,
    );
  }

  #excuseOf(attempt: Attempt): string | undefined {
    if (attempt.isDone) return undefined;
    if (attempt.excuse !== undefined) return attempt.excuse;
    // Its lease did not lapse: it was ended by its process.
    if (attempt.isOver) return undefined;
    if (attempt.process.ended) return 'its process ended';
    return this.#world.now >= attempt.leaseUntil ? 'it outlived its lease' : undefined;
  }

  /** Whether handlers of a process run that its receivers have to wait for. */
  runs(process: Process): boolean {
    return this.#runningIn(process) !== undefined;
  }

  /** The receivers of a process have closed, before the time was over that they wait at most. */
  closed(process: Process): void {
    const attempt = this.#runningIn(process);
    if (attempt === undefined) return;
    this.#world.violate(
      'when close() has resolved in time, no handler runs',
      `A handler of ${process.name} runs, under a lease of ${attempt.leaseUntil - this.#world.now} ms more.`,
      attempt.id,
    );
  }

  #runningIn(process: Process): Attempt | undefined {
    const { now } = this.#world;
    return this.#attempts.find((each) => each.process === process && each.isRunning && now < each.leaseUntil);
  }

  /** What still has to happen, as an event's id and why; none when every promise about the end holds. */
  *unfinished(): Generator<{ readonly id: string; readonly why: string }> {
    const state = this.poll.state;
    for (const [id, event] of this.genuine) {
      const known = this.stored.get(id);
      if (known !== undefined) {
        if (isEnded(known.state)) continue;
        yield { id, why: `it is ${known.state}` };
      } else if (this.#isPolled && isKnownEvent(event)) {
        if (state === undefined || state.watermark === null) yield { id, why: 'no poll has read the list' };
        else {
          const at = createdAtMs(event);
          const isOpen = at >= (state.since ?? Number.NEGATIVE_INFINITY);
          if (isOpen && state.watermark < at) yield { id, why: 'no poll has proven its time' };
        }
      }
    }
  }

  /** The promises about the end: each event has had its effect, or is dead with what shows for it. */
  checkEnd({
    maxAttempts,
    isPermanent,
    hasHandler,
  }: {
    readonly maxAttempts: number;
    readonly isPermanent: (event: UnknownEvent) => boolean;
    readonly hasHandler: (event: UnknownEvent) => boolean;
  }): void {
    for (const [id, { event, state, attempts, count }] of this.stored) {
      this.#checkGenuine(event);
      const effects = attempts.filter((each) => each.effectAt !== undefined).length;
      if (state === 'done' && effects === 0 && hasHandler(event)) {
        this.#world.violate('what is done has had its effect', 'It had none.', id);
      }
      if (state === 'done' && effects === 1) this.#world.count('an effect happens once');
      if (state === 'dead' && !isPermanent(event) && count < maxAttempts) {
        this.#world.violate(
          'what is dead has used up its attempts',
          `It had ${count} of ${maxAttempts}.`,
          id,
        );
      }
      if (state === 'dead') this.#world.count('an event is dead');
      if (state === 'parked') this.#world.count('an event is parked');
    }
  }

  #change(id: string, changes: Partial<Pick<Tracked, 'state' | 'dueAt'>>): void {
    const known = this.stored.get(id);
    if (known !== undefined) Object.assign(known, changes);
  }

  /** The event as it is known, or stored by now. */
  #track(event: UnknownEvent, isStored: boolean): Tracked | undefined {
    this.#checkGenuine(event);
    const known = this.stored.get(event.id);
    if (known !== undefined || !isStored) return known;
    const tracked: Tracked = {
      event,
      state: 'received',
      attempts: [],
      count: 0,
      dueAt: 0,
      takenUntil: 0,
      waits: 'no',
      key: this.#keyOf(event),
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
    if (!isSame) {
      this.#world.violate('nothing forged or corrupted gets into the inbox', JSON.stringify(event), event.id);
    }
  }

  /** A lease that has lapsed is given to another. */
  #lapse(attempt: Attempt): void {
    if (attempt.isOver) return;
    attempt.isOver = true;
    attempt.excuse ??= 'it outlived its lease';
    const known = this.stored.get(attempt.id);
    if (known?.state === 'leased') known.state = 'received';
  }

  #endLease(lease: Lease, isEnded: boolean, what: string): Attempt | undefined {
    const { now } = this.#world;
    const attempt = this.stored.get(lease.id)?.attempts.find(({ token }) => token === lease.token);
    if (attempt === undefined) {
      if (isEnded)
        this.#world.violate('a lost lease changes nothing', `Its token was never given.`, lease.id);
      return undefined;
    }
    if (!isEnded) {
      if (!attempt.isOver && now < attempt.leaseUntil) {
        this.#world.violate(
          'a valid lease completes or fails its event',
          `${attempt.process.name} ${what} it with a lease of ${attempt.leaseUntil - now} ms more, and the inbox says that it is lost.`,
          lease.id,
        );
      }
      this.#world.count('a lost lease changes nothing');
      if (now >= attempt.leaseUntil) attempt.excuse ??= 'it outlived its lease';
      attempt.isOver = true;
      return undefined;
    }
    if (attempt.isOver) {
      this.#world.violate(
        'a lost lease changes nothing',
        `${attempt.process.name} ${what} it with a token that was replaced or used.`,
        lease.id,
      );
    }
    if (attempt.isRunning && !attempt.process.ended && now < attempt.leaseUntil) {
      this.#world.violate(
        'an event stays claimed while its handler runs',
        `Its handler runs, and ${attempt.process.name} ${what} it.`,
        lease.id,
      );
    }
    attempt.isOver = true;
    return attempt;
  }

  /** The end of an attempt makes the event due that waits for its key and was created first. */
  #release({ key }: Attempt): void {
    if (key === undefined) return;
    const waiting = [...this.stored.values()].filter((each) => each.key === key && each.waits === 'waits');
    const [first] = waiting.sort(
      (a, b) => createdAtMs(a.event) - createdAtMs(b.event) || a.number - b.number,
    );
    if (first === undefined) return;
    first.waits = 'due';
    this.#world.count('a key is released to the next event');
  }

  #isKeyHeld(key: string | undefined): boolean {
    const { now } = this.#world;
    const isHeld = (each: Attempt) => each.key === key && isValid(each, now);
    if (this.#attempts.some(isHeld)) return true;
    // What was taken to be run holds back the others of its key, too.
    return [...this.stored.values()].some((each) => each.key === key && each.takenUntil > now);
  }
}

function isValid(attempt: Attempt, now: number): boolean {
  return !attempt.isOver && attempt.leaseUntil > now;
}

/** Whether nothing more has to run. */
function isEnded(state: Tracked['state'] | undefined): boolean {
  return state === 'done' || state === 'dead' || state === 'parked';
}

function isInGap({ gaps }: PollState, event: UnknownEvent): boolean {
  const at = createdAtMs(event);
  return gaps.some(({ from, until }) => at > from && at <= (until[event.type] ?? Number.NEGATIVE_INFINITY));
}
