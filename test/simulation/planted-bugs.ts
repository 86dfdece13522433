/** Bugs that are planted in the sources, one at a time: the simulation must find each. */
import type { Edit } from './bundle.js';
import type { PromiseName } from './promise-list.js';

export interface PlantedBug extends Edit {
  readonly name: string;
  /** Each promise that it breaks, in one world or another. */
  readonly breaks: readonly PromiseName[];
}

const MEMORY = 'src/inboxes/memory-ops.ts';
const RECEIVER = 'src/receiver/receiver.ts';
const RECEIVE = 'src/receiver/receive.ts';
const CALL = 'src/receiver/handler-call.ts';
const DISPATCH = 'src/receiver/dispatch.ts';
const ATTEMPT = 'src/receiver/attempt.ts';
const STORE = 'src/receiver/store.ts';
const REDRIVER = 'src/receiver/redriver.ts';
const POLL = 'src/catch-up/poll.ts';

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'two claims of an event win',
    breaks: ['an event is leased once at a time'],
    file: MEMORY,
    find: "(state === 'leased' || (state === 'failed' && !early))",
    replace: "(state === 'failed' && !early)",
  },
  {
    name: 'complete ignores the token',
    breaks: ['a lost lease changes nothing'],
    file: MEMORY,
    find: 'complete(lease) {\n      const entry = findLeased(lease);',
    replace: 'complete(lease) {\n      const entry = store.open.get(lease.id);',
  },
  {
    name: 'fail ignores the token',
    breaks: ['a lost lease changes nothing'],
    file: MEMORY,
    find: 'error, later }) {\n      const entry = findLeased(lease);',
    replace: 'error, later }) {\n      const entry = store.open.get(lease.id);',
  },
  {
    name: 'the SQLite inbox completes without looking at the token',
    breaks: ['a lost lease changes nothing'],
    file: 'src/inboxes/sqlite-sql.ts',
    find: "WHERE id = :id AND state = 'leased' AND token = :token",
    replace: "WHERE id = :id AND state = 'leased'",
  },
  {
    name: 'the mark that an event is done gets lost',
    breaks: ['what is done or dead is never claimed', 'what is done or dead is not redriven'],
    file: MEMORY,
    find: 'store.finish(entry);\n      if',
    replace: "store.change(entry, 'received', now());\n      if",
  },
  {
    name: 'complete refuses a valid lease',
    breaks: ['a valid lease completes or fails its event'],
    file: MEMORY,
    find: 'complete(lease) {\n      const entry = findLeased(lease);',
    replace: 'complete(lease) {\n      const entry = lease.attempt === 2 ? undefined : findLeased(lease);',
  },
  {
    name: 'attempts are not counted',
    breaks: ['every claim counts as an attempt'],
    file: MEMORY,
    find: 'entry.attempts += 1;',
    replace: 'entry.attempts = 1;',
  },
  {
    name: 'a failed event is never due again',
    breaks: ['every event is done, dead or parked in the end'],
    file: MEMORY,
    find: 'isDead ? null : now() + retryAfterMs',
    replace: 'isDead ? null : now() + retryAfterMs + 1e12',
  },
  {
    name: 'a failed event can be claimed before its retry time',
    breaks: ['a failed event does not run before its retry time'],
    file: MEMORY,
    find: "(state === 'leased' || (state === 'failed' && !early))",
    replace: "(state === 'leased' || (state === 'failed' && early === undefined))",
  },
  {
    name: 'an event that is recorded again is new',
    breaks: ['an event is new once'],
    file: MEMORY,
    find: 'if (found !== undefined) return found.state;',
    replace: "if (found !== undefined) return 'new';",
  },
  {
    name: 'the inbox throws at the claim of a failed event',
    breaks: ['an inbox fails only when its connection does'],
    file: MEMORY,
    find: "if (state === 'done' || state === 'dead') return { state };",
    replace:
      "if (state === 'failed') throw new TypeError('Planted.');\n      if (state === 'done' || state === 'dead') return { state };",
  },
  {
    name: 'ignore marks what is received done',
    breaks: ['what another process has to run is not done without its handler'],
    file: MEMORY,
    find: "ignore: (events, options) => storePage(events, options, { state: 'done', dueAt: null }),",
    replace: `ignore: (events, options) =>
      storePage(events, options, { state: 'done', dueAt: null }).map((result, index) => {
        const entry = result === 'received' ? store.open.get(events[index]?.id ?? '') : undefined;
        if (entry === undefined) return result;
        store.finish(entry);
        return 'done';
      }),`,
  },
  {
    name: 'takeDue gives an event to two processes',
    breaks: ['what one process redrives is given to no other'],
    file: MEMORY,
    find: 'receive(entry, at + visibilityTimeoutMs, { isWaiting: false }, since);',
    replace: 'receive(entry, at, { isWaiting: false }, since);',
  },
  {
    name: 'takeDue takes what is leased',
    breaks: ['what is leased is not redriven'],
    file: MEMORY,
    find: "state === 'parked' ? 0",
    replace: "state === 'parked' || state === 'leased' ? 0",
  },
  {
    name: 'takeDue ignores the types',
    breaks: ['a process redrives only what it has a handler or a queue for'],
    file: MEMORY,
    find: 'types.includes(entry.type) && dueFrom(entry) <= at &&',
    replace: 'dueFrom(entry) <= at &&',
  },
  {
    name: 'the end of an attempt does not release its key',
    breaks: ['the next event of a key is due when the one before has ended'],
    file: MEMORY,
    find: 'if (next !== undefined) receive(next, now(), { isWaiting: false });',
    replace: '',
  },
  {
    name: 'a key is leased twice',
    breaks: ['of the events of a key, one is leased at a time'],
    file: MEMORY,
    find: 'const retryAfterMs = heldUntil - at;',
    replace: 'const retryAfterMs = 0 * heldUntil;',
  },
  {
    name: 'the lease to poll is ignored',
    breaks: ['one process polls at a time'],
    file: MEMORY,
    find: 'if (note.holder !== holder && isHeld) return false;',
    replace: '',
  },
  {
    name: 'a poll that has lost its lease saves its state',
    breaks: ['only the holder of the poll lease saves its state'],
    file: MEMORY,
    find: 'if (fence !== undefined && fence.holder !== note?.holder) return false;',
    replace: '',
  },
  {
    name: 'a signature that does not match is accepted',
    breaks: [
      'nothing forged or corrupted gets into the inbox',
      'nothing forged or corrupted is answered 2xx',
    ],
    file: 'src/core/signature.ts',
    find: 'if (secretIndex !== -1) return secretIndex;',
    replace: 'if (secretIndex !== 9) return secretIndex;',
  },
  {
    name: 'genuine deliveries of one type are refused',
    breaks: ['a genuine delivery is answered 2xx or 5xx'],
    file: 'src/core/events.ts',
    find: 'const wrong = wrongFields(value);',
    replace:
      "if (json.includes('redeem.failed')) throw malformed('Planted.');\n  const wrong = wrongFields(value);",
  },
  {
    name: 'the fetch adapter answers 200 to everything',
    breaks: [
      'what is answered 2xx is stored, and what is answered 200 needs no run',
      'nothing forged or corrupted is answered 2xx',
    ],
    file: 'src/adapters/fetch.ts',
    find: 'new Response(body, { status, headers })',
    replace: 'new Response(body, { status: 200, headers })',
  },
  {
    name: 'a delivery that the inbox did not take is answered 200',
    breaks: ['what is answered 2xx is stored, and what is answered 200 needs no run'],
    file: 'src/receiver/outcome.ts',
    find: "ERR_INBOX_FAILED: { kind: 'unavailable', status: 503 },",
    replace: "ERR_INBOX_FAILED: { kind: 'unavailable', status: 200 as 503 },",
  },
  {
    name: 'receive rejects',
    breaks: ['receive, accept and handle never reject'],
    file: RECEIVE,
    find: "const facts: OpenFacts = { origin: 'push', logger };",
    replace:
      "const facts: OpenFacts = { origin: 'push', logger };\n  if (settings.runtime.random() < 0.1) throw new Error('Planted.');",
  },
  {
    name: 'a handler is called twice',
    breaks: ['no two handlers of an event or a key run at the same time'],
    file: RECEIVER,
    find: 'handlers[event.type]?.(event, context);',
    replace: '[0, 1].map(async () => handlers[event.type]?.(event, context).catch(() => undefined));',
  },
  {
    name: 'close() waits for handlers that never end',
    breaks: ['close() resolves after leaseMs at the latest'],
    file: RECEIVER,
    find: 'await timeLimit(idle, leaseMs, () => undefined, runtime);',
    replace: 'await idle;',
  },
  {
    name: 'close() waits for nothing',
    breaks: ['when close() has resolved in time, no handler runs'],
    file: RECEIVER,
    find: 'await timeLimit(idle, leaseMs, () => undefined, runtime);',
    replace: 'void idle;',
  },
  {
    name: 'close() does not wait for overdue handlers',
    breaks: ['when close() has resolved in time, no handler runs'],
    file: ATTEMPT,
    find: 'inFlight.track(this.#reportOverdue(ended, error))',
    replace: 'this.#reportOverdue(ended)',
  },
  {
    name: 'an error of the receiver itself becomes an outcome',
    breaks: ['no outcome is an unexpected error'],
    file: DISPATCH,
    find: 'return running(claim.retryAfterMs);',
    replace: "throw new TypeError('Planted.');",
  },
  {
    name: 'a delivery of an event that is leased is never answered',
    breaks: ['every delivery and every job ends', 'every event is done, dead or parked in the end'],
    file: DISPATCH,
    find: "if (claim.state !== 'claimed') return",
    replace:
      "if (claim.state === 'leased') return await new Promise(() => undefined);\n    if (claim.state !== 'claimed') return",
  },
  {
    name: 'the handler of an event that waits for its key runs',
    breaks: ['a handler runs once under a claim'],
    file: DISPATCH,
    find: "if (claim.state !== 'claimed') return",
    replace: `if (claim.state === 'waiting') {
      const lease = { id: event.id, token: '', attempt: 0, key: event.payload['key'] as string };
      return new Attempt(parts, work, lease, askedAt).run();
    }
    if (claim.state !== 'claimed') return`,
  },
  {
    name: 'a worker completes without a handler what another process has begun',
    breaks: ['what another process has to run is not done without its handler'],
    file: DISPATCH,
    find: 'if (lease.attempt === 1) {',
    replace: 'if (lease.attempt > 0) {',
  },
  {
    name: 'an event that only memory has is queued',
    breaks: ['an event is queued only where it is durable'],
    file: DISPATCH,
    find: "return store.durable ? { kind: 'queued' } : otherProcess();",
    replace: "return { kind: 'queued' };",
  },
  {
    name: 'a handler runs outside the transaction',
    breaks: ['in a transactional inbox an effect happens once'],
    file: ATTEMPT,
    find: 'if (store.hasTransactions) {',
    replace: 'if (this.#lease.attempt === 0) {',
  },
  {
    name: 'a transaction is rolled back at the time limit of its handler',
    breaks: ['a transaction lives as long as its handler'],
    file: ATTEMPT,
    find: '(tx) => this.#call.run(tx)',
    replace: `(tx) => Promise.race([
          this.#call.run(tx),
          this.#call.timeUp.then((error) => { throw error; }),
        ])`,
  },
  {
    name: 'a transaction is rolled back when its overdue handler has ended well',
    breaks: ['a transaction lives as long as its handler'],
    file: ATTEMPT,
    find: '(tx) => this.#call.run(tx)',
    replace: `async (tx) => {
          await this.#call.run(tx);
          const late = await Promise.race([this.#call.timeUp, undefined]);
          if (late !== undefined) throw late;
        }`,
  },
  {
    name: 'the time limit frees an event while its handler runs',
    breaks: ['an event stays claimed while its handler runs'],
    file: ATTEMPT,
    find: 'return { result, rest: inFlight',
    replace: 'this.#fail(error).catch(() => undefined);\n    return { result, rest: inFlight',
  },
  {
    name: 'a success is marked failed, and the event runs again after its lease',
    breaks: [
      'an effect happens again only if its process died, its mark failed, its handler threw, or it outlived its lease',
    ],
    file: ATTEMPT,
    find: 'isCompleted = await store.complete(this.#lease);',
    replace: `if (this.#lease.attempt === 1) {
          await store.fail(this.#lease, { retryAfterMs: this.#parts.settings.leaseMs + 1, error: 'Planted.' });
          throw leaseLost(this.#lease);
        }
        isCompleted = await store.complete(this.#lease);`,
  },
  {
    name: 'an event that is redriven is done without its handler',
    breaks: ['what is done has had its effect'],
    file: CALL,
    find: 'running = callHandler(event, this.#lease, context);',
    replace:
      "if (this.#work.origin === 'redrive') return stop();\n      running = callHandler(event, this.#lease, context);",
  },
  {
    name: 'an event is dead after one attempt too few',
    breaks: ['what is dead has used up its attempts'],
    file: ATTEMPT,
    find: 'attempt >= settings.maxAttempts);',
    replace: 'attempt >= settings.maxAttempts - 1);',
  },
  {
    name: 'an event that is due now is parked',
    breaks: ['only unknown types are parked'],
    file: STORE,
    find: "dueInMs: how === 'park' ? null : dueInMs",
    replace: "dueInMs: how === 'park' || dueInMs === 0 ? null : dueInMs",
  },
  {
    name: 'an answer is given before the event is stored',
    breaks: ['an outcome says what the inbox has'],
    file: 'src/flow/answer-first.ts',
    find: 'const recorded = await store.recordOne(work, settings.leaseMs);',
    replace:
      "const recorded = await Promise.race([store.recordOne(work, settings.leaseMs), 'new' as const]);",
  },
  {
    name: 'an event is enqueued before it is recorded',
    breaks: ['an event is recorded before it is enqueued'],
    file: 'src/flow/enqueue.ts',
    find: 'const recorded = await store.recordOne(work, leaseMs);',
    replace:
      'await enqueue(event, { json, isNew: true });\n    const recorded = await store.recordOne(work, leaseMs);',
  },
  {
    name: 'redrive rejects',
    breaks: ['redrive rejects only when the inbox fails'],
    file: REDRIVER,
    find: 'const until = pausedAt + leaseMs;',
    replace:
      "const until = pausedAt + leaseMs;\n    if (runtime.random() < 0.1) throw new Error('Planted.');",
  },
  {
    name: 'a redrive waits for a free slot after its signal',
    breaks: ['a redrive ends with its signal'],
    file: REDRIVER,
    find: 'await slots?.freed(signal);',
    replace: 'await slots?.freed(undefined);',
  },
  {
    name: 'a timer of start() throws',
    breaks: ['a timer never throws'],
    file: REDRIVER,
    find: '? runtime.setTimeout(resolve, waitMs)',
    replace: "? runtime.setTimeout(() => { throw new Error('Planted.'); }, waitMs)",
  },
  {
    name: 'the watermark is saved before the events are recorded',
    breaks: ['what is proven is in the inbox'],
    file: POLL,
    find: 'const found = await recordFound(settings, survey, options.lease);',
    replace:
      "void recordFound(settings, survey, options.lease);\n  const events = survey.list.found(survey.start.takeFrom).map((each) => ({ ...each, result: 'new' as const }));\n  const found = { ...survey, events, taken: events.length, refused: [], problems: [] };",
  },
  {
    name: 'a poll moves the watermark on although an event could not be recorded',
    breaks: ['what is proven is in the inbox'],
    file: POLL,
    find: 'answered && found.problems.length === 0 && !options.halt.aborted',
    replace: 'answered && !options.halt.aborted',
  },
  {
    name: 'a gap is closed without a proof',
    breaks: ['what is proven is in the inbox'],
    file: 'src/catch-up/gaps.ts',
    find: 'if (from > gap.from) left[type] = from;',
    replace: 'if (from > settledAt) left[type] = from;',
  },
  {
    name: 'stop() of a poller waits for a poll that does not run',
    breaks: ['every process can be closed'],
    file: 'src/catch-up/poller.ts',
    find: 'ended = Promise.resolve(current);',
    replace: 'ended = Promise.resolve(current ?? new Promise(() => undefined));',
  },
  {
    name: 'a step that is stored runs again',
    breaks: ['a step that is stored does not run again'],
    file: 'src/receiver/steps.ts',
    find: 'if (found !== undefined) {',
    replace: 'if (found?.result === null) {',
  },
  {
    name: 'a step is stored without looking at the token',
    breaks: ['a lost lease stores no step'],
    file: MEMORY,
    find: 'saveStep(lease, name, result) {\n      const entry = findLeased(lease);',
    replace: 'saveStep(lease, name, result) {\n      const entry = store.open.get(lease.id);',
  },
  {
    name: 'an event that asks for later has failed',
    breaks: ['a handler that asks for later has not failed'],
    file: ATTEMPT,
    find: "if (error.code === 'ERR_HANDLER_LATER') return this.#postpone(error);",
    replace: '',
  },
  {
    name: 'an event that asks for later uses up an attempt',
    breaks: ['every claim counts as an attempt'],
    file: MEMORY,
    find: "if (ended === 'later') entry.attempts -= 1;",
    replace: '',
  },
  {
    name: 'the watermark passes an event whose first attempt runs',
    breaks: ['what is proven is in the inbox'],
    file: POLL,
    find: ', ...running.map((at) => at - 1)',
    replace: '',
  },
  {
    name: 'a failed first attempt is answered before it is stored',
    breaks: ['an outcome says what the inbox has'],
    file: ATTEMPT,
    find: 'const isRecorded = await store.fail(this.#lease, { retryAfterMs, error: toLastError(error) });',
    replace: `const recorded = store.fail(this.#lease, { retryAfterMs, error: toLastError(error) });
    if (this.#lease.first) recorded.catch(() => undefined);
    const isRecorded = this.#lease.first ? true : await recorded;`,
  },
  {
    name: 'the handler of a first attempt runs although its event is stored or runs',
    breaks: ['a handler runs once under a claim'],
    file: ATTEMPT,
    find: 'if (!isCompleted) return this.#lost();',
    replace: `if (!isCompleted && this.#lease.first) await this.#call.run(undefined);
    if (!isCompleted) return this.#lost();`,
  },
  {
    name: 'an event whose first attempt runs is answered as handled',
    breaks: ['an outcome says what the inbox has'],
    file: ATTEMPT,
    find: 'if (!isCompleted) return this.#lost();',
    replace: 'if (!isCompleted && !this.#lease.first) return this.#lost();',
  },
  {
    name: 'an event whose first attempt runs is queued',
    breaks: ['an outcome says what the inbox has'],
    file: DISPATCH,
    find: "if (recorded === 'running') return running(RUNNING_RETRY_MS);",
    replace: '',
  },
  {
    name: 'an attempt ends with its connection, and its handler runs on',
    breaks: [
      'when close() has resolved in time, no handler runs',
      'an event stays claimed while its handler runs',
    ],
    file: STORE,
    find: 'await Promise.allSettled([running]);',
    replace: 'await Promise.race([committed, Promise.allSettled([running])]);',
  },
];
