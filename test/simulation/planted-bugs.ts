/** Bugs that are planted in the sources, one at a time: the simulation must find each. */
import type { Edit } from './bundle.js';
import type { PromiseName } from './promise-list.js';

export interface PlantedBug {
  readonly name: string;
  /** Each promise that it breaks, in one world or another. */
  readonly breaks: readonly PromiseName[];
  readonly edit: Edit;
}

const MEMORY = 'src/inboxes/memory.ts';
const RECEIVER = 'src/receiver/receiver.ts';
const HANDLER = 'src/receiver/run-handler.ts';
const LIST = 'src/catch-up/list.ts';
const GAPS = 'src/catch-up/gaps.ts';
const OUTCOME = 'src/receiver/outcome.ts';

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'two claims of an event win',
    breaks: ['an event is leased once at a time'],
    edit: {
      file: MEMORY,
      find: "if (state === 'leased' || (state === 'failed' && !early))",
      replace: "if (state === 'failed' && !early)",
    },
  },
  {
    name: 'complete ignores the token',
    breaks: ['a lost lease changes nothing'],
    edit: {
      file: MEMORY,
      find: 'async complete(lease) {\n      const stored = findLeased(lease);',
      replace: 'async complete(lease) {\n      const stored = open.get(lease.id);',
    },
  },
  {
    name: 'fail ignores the token',
    breaks: ['a lost lease changes nothing'],
    edit: {
      file: MEMORY,
      find: 'error }) {\n      const stored = findLeased(lease);',
      replace: 'error }) {\n      const stored = open.get(lease.id);',
    },
  },
  {
    name: 'the mark that an event is done gets lost',
    breaks: ['what is done or dead is never claimed', 'what is done or dead is not redriven'],
    edit: {
      file: MEMORY,
      find: "end(stored, { result: 'done', error: null });\n      change(stored, { state: 'done', dueAt: null, lastError: null });",
      replace: "change(stored, { state: 'received', dueAt: now() });",
    },
  },
  {
    name: 'an event is enqueued before it is recorded',
    breaks: ['an event is recorded before it is enqueued'],
    edit: {
      file: RECEIVER,
      find: "const recorded = await recordOne(event, origin, { json, dueInMs: leaseMs });\n    if (recorded === 'done') return { kind: 'duplicate' };",
      replace:
        "await queue.enqueue(event, { json });\n    const recorded = await recordOne(event, origin, { json, dueInMs: leaseMs });\n    if (recorded === 'done') return { kind: 'duplicate' };",
    },
  },
  {
    name: 'the watermark is saved before the events are recorded',
    breaks: ['what is proven is in the inbox'],
    edit: {
      file: LIST,
      find: 'await record(events.filter((event) => createdAt(event) >= from));',
      replace: 'record(events.filter((event) => createdAt(event) >= from)).catch(() => undefined);',
    },
  },
  {
    name: 'a handler runs outside the transaction',
    breaks: ['in a transactional inbox an effect happens once'],
    edit: {
      file: HANDLER,
      find: 'if (inbox.transaction === undefined) {',
      replace: 'if (attempt > 0) {',
    },
  },
  {
    name: 'the time limit frees an event while its handler runs',
    breaks: ['an event stays claimed while its handler runs'],
    edit: {
      file: HANDLER,
      find: 'isLate = true;\n      options.onLate(late(transaction));\n      return',
      replace: 'void late;\n      await fail(event, lease, { ...options, error: timeout });\n      return',
    },
  },
  {
    name: 'the end of an attempt does not release its key',
    breaks: ['the next event of a key is due when the one before has ended'],
    edit: {
      file: MEMORY,
      find: 'next.isWaiting = false;\n    change(next, { dueAt: now() });',
      replace: '',
    },
  },
  {
    name: 'a key is leased twice',
    breaks: ['of the events of a key, one is leased at a time'],
    edit: {
      file: MEMORY,
      find: 'const retryAfterMs = heldUntil - now();',
      replace: 'const retryAfterMs = 0 * heldUntil;',
    },
  },
  {
    name: 'all due events of a key are redriven at once',
    breaks: ['of the events of a key, one is redriven at a time'],
    edit: {
      file: MEMORY,
      find: 'if (passed.has(events)) continue;\n          passed.add(events);\n          first = passOver(events, { at, types, visibleAt });',
      replace: 'void passOver;',
    },
  },
  {
    name: 'a gap is closed without a proof',
    breaks: ['what is proven is in the inbox'],
    edit: {
      file: GAPS,
      find: '.filter(([, end]) => end > gap.from);',
      replace: '.filter(([, end]) => end > settledAt);',
    },
  },
  {
    name: 'takeDue gives an event to two processes',
    breaks: ['what one process redrives is given to no other'],
    edit: {
      file: MEMORY,
      find: "change(first, { state: 'received', dueAt: visibleAt });",
      replace: "change(first, { state: 'received', dueAt: at });",
    },
  },
  {
    name: 'attempts are not counted',
    breaks: ['every claim counts as an attempt'],
    edit: { file: MEMORY, find: 'attempts: stored.record.attempts + 1,', replace: 'attempts: 1,' },
  },
  {
    name: 'the lease to poll is ignored',
    breaks: ['one process polls at a time'],
    edit: {
      file: MEMORY,
      find: 'if (poll.holder !== holder && poll.leaseUntil > now()) return null;',
      replace: '',
    },
  },
  {
    name: 'a poll that has lost its lease saves its state',
    breaks: ['only who has the lease to poll saves its state'],
    edit: { file: MEMORY, find: 'if (poll.holder !== holder) return false;', replace: '' },
  },
  {
    name: 'a signature that does not match is accepted',
    breaks: [
      'nothing forged or corrupted gets into the inbox',
      'nothing forged or corrupted is answered 2xx',
    ],
    edit: {
      file: 'src/core/signature.ts',
      find: 'if (secretIndex !== -1) return',
      replace: 'if (secretIndex !== 9) return',
    },
  },
  {
    name: 'an answer is given before the event is stored',
    breaks: ['an outcome says what the inbox has'],
    edit: {
      file: RECEIVER,
      find: 'const { result, lease } = await store(parsed.event, json);',
      replace:
        "const storing = store(parsed.event, json);\n      storing.catch(() => undefined);\n      const { result, lease } = await Promise.race([storing, { result: { kind: 'queued' } as const, lease: undefined }]);",
    },
  },
  {
    name: 'a poll moves the watermark on although an event could not be recorded',
    breaks: ['what is proven is in the inbox'],
    edit: {
      file: LIST,
      find: "if (!signal.aborted) addProblem(toProblem(error, { code: 'ERR_API_RESPONSE' }));\n      return null;",
      replace: 'return { ...query, size: 0, events: [], unreadable: [], servedAt: null };',
    },
  },
  {
    name: 'a failed event is never due again',
    breaks: ['every event is done, dead or parked in the end'],
    edit: {
      file: MEMORY,
      find: ": { state: 'failed', dueAt: now() + retryAfterMs, lastError },",
      replace: ": { state: 'failed', dueAt: now() + retryAfterMs + 1e12, lastError },",
    },
  },
  {
    name: 'close() waits for handlers that never end',
    breaks: ['close() resolves after leaseMs at the latest'],
    edit: {
      file: RECEIVER,
      find: 'await atMost(leaseMs, Promise.all([ended, runner?.ended]));',
      replace: 'await Promise.all([ended, runner?.ended]);',
    },
  },
  {
    name: 'a delivery that the inbox did not take is answered 200',
    breaks: ['what is answered 2xx is stored, and what is answered 200 needs no run'],
    edit: {
      file: OUTCOME,
      find: "ERR_INBOX_FAILED: { kind: 'unavailable', status: 503 },",
      replace: "ERR_INBOX_FAILED: { kind: 'unavailable', status: 200 as 503 },",
    },
  },
  {
    name: 'the fetch adapter answers 200 to everything',
    breaks: [
      'what is answered 2xx is stored, and what is answered 200 needs no run',
      'nothing forged or corrupted is answered 2xx',
    ],
    edit: {
      file: 'src/adapters/fetch.ts',
      find: 'new Response(body, { status, headers })',
      replace: 'new Response(body, { status: 200, headers })',
    },
  },
  {
    name: 'genuine deliveries are refused',
    breaks: ['a genuine delivery is answered 2xx or 5xx'],
    edit: {
      file: RECEIVER,
      find: 'delivery.event = parsed.event;',
      replace: "throw new RequestError('ERR_SIGNATURE_MISMATCH' as 'ERR_BODY_ENCODED', 'Planted.');",
    },
  },
  {
    name: 'genuine deliveries of one type are refused',
    breaks: ['a genuine delivery is answered 2xx or 5xx'],
    edit: {
      file: RECEIVER,
      find: 'delivery.event = parsed.event;',
      replace:
        "if (parsed.event.type === 'redeem.failed') throw new RequestError('ERR_BODY_ENCODED', 'Planted.');\n      delivery.event = parsed.event;",
    },
  },
  {
    name: 'receive rejects',
    breaks: ['receive, accept and handle never reject'],
    edit: {
      file: RECEIVER,
      find: 'const requestLogger = loggerOf(request);',
      replace:
        "const requestLogger = loggerOf(request);\n    if (runtime.random() < 0.1) throw new Error('Planted.');",
    },
  },
  {
    name: 'redrive rejects',
    breaks: ['redrive and record reject only when the inbox fails'],
    edit: {
      file: RECEIVER,
      find: 'const width = Math.min(REDRIVE_WIDTH,',
      replace:
        "if (runtime.random() < 0.1) throw new Error('Planted.');\n    const width = Math.min(REDRIVE_WIDTH,",
    },
  },
  {
    name: 'an error of the receiver itself becomes an outcome',
    breaks: ['no outcome is an unexpected error'],
    edit: {
      file: RECEIVER,
      find: "throw new BusyError('ERR_EVENT_BUSY',",
      replace: "throw new TypeError('ERR_EVENT_BUSY',",
    },
  },
  {
    name: 'a timer of the runner throws',
    breaks: ['a timer never throws'],
    edit: {
      file: 'src/receiver/runner.ts',
      find: 'const timer = runtime.setTimeout(resolve, waitMs);',
      replace:
        "const timer = runtime.setTimeout(() => {\n        throw new Error('Planted.');\n      }, waitMs);",
    },
  },
  {
    name: 'the inbox throws at the claim of a failed event',
    breaks: ['an inbox fails only when its connection does'],
    edit: {
      file: MEMORY,
      find: 'const { state, dueAt } = found?.record ?? {};\n',
      replace:
        "const { state, dueAt } = found?.record ?? {};\n      if (state === 'failed') throw new TypeError('Planted.');\n",
    },
  },
  {
    name: 'a success is marked failed, and the event runs again after its lease',
    breaks: [
      'an effect happens again only if its process died, its mark failed, its handler threw, or it outlived its lease',
    ],
    edit: {
      file: HANDLER,
      find: 'if (running !== undefined) await running;',
      replace:
        "if (running !== undefined) await running;\n      if (attempt === 1) {\n        await inbox.fail(lease, { retryAfterMs: settings.leaseMs + 1, error: 'Planted.' });\n        throw leaseLost(lease);\n      }",
    },
  },
  {
    name: 'a failed event can be claimed before its retry time',
    breaks: ['a failed event does not run before its retry time'],
    edit: {
      file: MEMORY,
      find: "if (state === 'leased' || (state === 'failed' && !early))",
      replace: "if (state === 'leased' && !(early as unknown as undefined))",
    },
  },
  {
    name: 'an event that is recorded again is new',
    breaks: ['an event is new once'],
    edit: {
      file: MEMORY,
      find: 'if (found !== undefined) return found.record.state;',
      replace: "if (found !== undefined) return 'new';",
    },
  },
  {
    name: 'takeDue takes what is leased',
    breaks: ['what is leased is not redriven'],
    edit: {
      file: MEMORY,
      find: ': dueAt !== null && dueAt <= at;',
      replace: ": dueAt !== null && (dueAt <= at || state === 'leased');",
    },
  },
  {
    name: 'the handler of an event that waits for its key runs',
    breaks: ['a handler runs once under a claim'],
    edit: {
      file: RECEIVER,
      find: 'onRetry({ id: event.id, attempt: 0 }, claim.retryAfterMs);\n        throw new BusyError(',
      replace:
        "if (claim.retryAfterMs > 0) return await runClaimed({ origin, event }, { id: event.id, token: '', attempt: 0, key: orderingKeyOf(event, settings) } as Lease, { askedAt, late });\n        throw new BusyError(",
    },
  },
  {
    name: 'a handler is called twice',
    breaks: ['no two handlers of an event or a key run at once'],
    edit: {
      file: HANDLER,
      find: '? handler(event, context)',
      replace: '? (handler(event, context), handler(event, context))',
    },
  },
  {
    name: 'complete refuses a valid lease',
    breaks: ['a valid lease completes or fails its event'],
    edit: {
      file: MEMORY,
      find: 'async complete(lease) {\n      const stored = findLeased(lease);',
      replace:
        'async complete(lease) {\n      const stored = lease.attempt === 2 ? undefined : findLeased(lease);',
    },
  },
  {
    name: 'a delivery of an event that is leased is never answered',
    breaks: ['every delivery and every job ends'],
    edit: {
      file: RECEIVER,
      find: "case 'leased':\n",
      replace:
        "case 'leased':\n        if (claim !== undefined) return await new Promise(() => undefined);\n",
    },
  },
  {
    name: 'an event that is redriven is done without its handler',
    breaks: ['what is done has had its effect'],
    edit: {
      file: HANDLER,
      find: 'const running = run(undefined as Tx);',
      replace: "const running = origin === 'redrive' ? undefined : run(undefined as Tx);",
    },
  },
  {
    name: 'an event is dead after one attempt too few',
    breaks: ['what is dead has used up its attempts'],
    edit: { file: HANDLER, find: 'attempt >= maxAttempts);', replace: 'attempt >= maxAttempts - 1);' },
  },
  {
    name: 'an event that is due at once is parked',
    breaks: ['only unknown types are parked'],
    edit: {
      file: RECEIVER,
      find: 'dueInMs: known ? dueInMs : null,',
      replace: 'dueInMs: known && dueInMs > 0 ? dueInMs : null,',
    },
  },
  {
    name: 'close() waits for nothing',
    breaks: ['when close() has resolved in time, no handler runs'],
    edit: {
      file: RECEIVER,
      find: 'await atMost(leaseMs, Promise.all([ended, runner?.ended]));',
      replace: 'void ended;',
    },
  },
  {
    name: 'stop() of a poller waits for a poll that does not run',
    breaks: ['every process can be closed'],
    edit: {
      file: 'src/catch-up/poller.ts',
      find: 'ended = Promise.resolve(current);',
      replace: 'ended = Promise.resolve(current ?? new Promise(() => undefined));',
    },
  },
  {
    name: 'the SQLite inbox completes without looking at the token',
    breaks: ['a lost lease changes nothing'],
    edit: {
      file: 'src/inboxes/sqlite-sql.ts',
      find: "WHERE id = ? AND state = 'leased' AND token = ?",
      replace: "WHERE id = ? AND state = 'leased' AND (token = ? OR 1 = 1)",
    },
  },
];
