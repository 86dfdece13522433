/** Bugs that are planted in the sources, one at a time: the simulation must find each. */
import type { Edit } from './bundle.js';

export interface PlantedBug {
  readonly name: string;
  /** The promises that it can break. */
  readonly breaks: readonly string[];
  readonly edits: readonly Edit[];
}

const MEMORY = 'src/inboxes/memory.ts';
const RECEIVER = 'src/receiver/receiver.ts';
const HANDLER = 'src/receiver/run-handler.ts';
const LIST = 'src/catch-up/list.ts';
const GAPS = 'src/catch-up/gaps.ts';

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'two claims of an event win',
    breaks: ['an event is leased once at a time'],
    edits: [
      {
        file: MEMORY,
        find: 'if (waits && leftMs > 0)',
        replace: "if (state !== 'leased' && waits && leftMs > 0)",
      },
    ],
  },
  {
    name: 'complete ignores the token',
    breaks: ['a lost lease changes nothing'],
    edits: [
      {
        file: MEMORY,
        find: 'async complete(lease) {\n      const stored = findLeased(lease);',
        replace: 'async complete(lease) {\n      const stored = open.get(lease.id);',
      },
    ],
  },
  {
    name: 'fail ignores the token',
    breaks: ['a lost lease changes nothing'],
    edits: [
      {
        file: MEMORY,
        find: 'error }) {\n      const stored = findLeased(lease);',
        replace: 'error }) {\n      const stored = open.get(lease.id);',
      },
    ],
  },
  {
    name: 'the mark that an event is done gets lost',
    breaks: ['what is done or dead is never claimed', 'what is done or dead is not redriven'],
    edits: [
      {
        file: MEMORY,
        find: "end(stored, { result: 'done', error: null });\n      change(stored, { state: 'done', dueAt: null, lastError: null });",
        replace: "change(stored, { state: 'received', dueAt: now() });",
      },
    ],
  },
  {
    name: 'an event is enqueued before it is recorded',
    breaks: ['an event is recorded before it is enqueued'],
    edits: [
      {
        file: RECEIVER,
        find: "const recorded = await recordOne(event, origin, { json, dueInMs: leaseMs });\n    if (recorded === 'done') return { kind: 'duplicate' };",
        replace:
          "await queue.enqueue(event, { json });\n    const recorded = await recordOne(event, origin, { json, dueInMs: leaseMs });\n    if (recorded === 'done') return { kind: 'duplicate' };",
      },
    ],
  },
  {
    name: 'the watermark is saved before the events are recorded',
    breaks: ['what is proven is in the inbox'],
    edits: [
      {
        file: LIST,
        find: 'await record(events.filter((event) => createdAt(event) >= from));',
        replace: 'record(events.filter((event) => createdAt(event) >= from)).catch(() => undefined);',
      },
    ],
  },
  {
    name: 'effects are committed although the mark failed',
    breaks: ['in a transactional inbox an effect happens once'],
    edits: [
      {
        file: 'test/simulation/inbox-port.ts',
        find: 'if (isCompleted) for (const attempt of written)',
        replace: 'for (const attempt of written)',
      },
    ],
  },
  {
    name: 'the time limit frees an event while its handler runs',
    breaks: [
      'an event stays claimed while its handler runs',
      'no two handlers of an event or a key run at once',
    ],
    edits: [
      {
        file: HANDLER,
        find: 'isLate = true;\n      options.onLate(late(transaction));\n      return',
        replace: 'void late;\n      await fail(event, lease, { ...options, error: timeout });\n      return',
      },
    ],
  },
  {
    name: 'the end of an attempt does not release its key',
    breaks: ['the next event of a key is due when the one before has ended'],
    edits: [
      {
        file: MEMORY,
        find: 'next.isWaiting = false;\n    change(next, { dueAt: now() });',
        replace: '',
      },
    ],
  },
  {
    name: 'a key is leased twice',
    breaks: ['of the events of a key, one is leased at a time'],
    edits: [{ file: MEMORY, find: 'if (heldMs > 0) {', replace: 'if (heldMs > Number.MAX_VALUE) {' }],
  },
  {
    name: 'all due events of a key are redriven at once',
    breaks: ['of the events of a key, one is redriven at a time'],
    edits: [
      {
        file: MEMORY,
        find: 'if (keys.has(key)) continue;\n          keys.add(key);\n          first = passOver(key, { at, types, visibleAt });',
        replace: 'void passOver;',
      },
    ],
  },
  {
    name: 'a gap is closed without a proof',
    breaks: ['what is proven is in the inbox'],
    edits: [
      {
        file: GAPS,
        find: '.filter(([, end]) => end > gap.from);',
        replace: '.filter(([, end]) => end > settledAt);',
      },
    ],
  },
  {
    name: 'takeDue gives an event to two processes',
    breaks: ['what one process redrives is given to no other'],
    edits: [
      {
        file: MEMORY,
        find: "change(first, { state: 'received', dueAt: visibleAt });",
        replace: "change(first, { state: 'received', dueAt: at });",
      },
    ],
  },
  {
    name: 'attempts are not counted',
    breaks: ['every claim counts as an attempt'],
    edits: [{ file: MEMORY, find: 'attempts: stored.record.attempts + 1,', replace: 'attempts: 1,' }],
  },
  {
    name: 'the lease to poll is ignored',
    breaks: ['one process polls at a time'],
    edits: [
      {
        file: MEMORY,
        find: 'if (poll.holder !== holder && poll.leaseUntil > now()) return null;',
        replace: '',
      },
    ],
  },
  {
    name: 'a poll that has lost its lease saves its state',
    breaks: ['only who has the lease to poll saves its state'],
    edits: [{ file: MEMORY, find: 'if (poll.holder !== holder) return false;', replace: '' }],
  },
  {
    name: 'a signature that does not match is accepted',
    breaks: ['nothing forged or corrupted gets into the inbox'],
    edits: [
      {
        file: 'src/core/signature.ts',
        find: 'if (secretIndex !== -1) return',
        replace: 'if (secretIndex !== 9) return',
      },
    ],
  },
  {
    name: 'an answer is given before the event is stored',
    breaks: ['what is answered 2xx is stored'],
    edits: [
      {
        file: RECEIVER,
        find: 'const { result, lease } = await store(parsed.event, json);',
        replace:
          "const storing = store(parsed.event, json);\n      storing.catch(() => undefined);\n      const { result, lease } = await Promise.race([storing, { result: { kind: 'queued' } as const, lease: undefined }]);",
      },
    ],
  },
  {
    name: 'a poll moves the watermark on although an event could not be recorded',
    breaks: ['what is proven is in the inbox'],
    edits: [
      {
        file: LIST,
        find: "if (!signal.aborted) addProblem(toProblem(error, { code: 'ERR_API_RESPONSE' }));\n      return null;",
        replace: 'return { ...query, size: 0, events: [], unreadable: [], servedAt: null };',
      },
    ],
  },
  {
    name: 'a failed event is never due again',
    breaks: ['a calm world comes to an end'],
    edits: [
      {
        file: MEMORY,
        find: ": { state: 'failed', dueAt: now() + retryAfterMs, lastError },",
        replace: ": { state: 'failed', dueAt: now() + retryAfterMs + 1e12, lastError },",
      },
    ],
  },
  {
    name: 'close() waits for handlers that never end',
    breaks: ['close() resolves after leaseMs at the latest', 'every process can be closed'],
    edits: [
      {
        file: RECEIVER,
        find: 'await atMost(leaseMs, Promise.all([ended, runner?.ended]));',
        replace: 'await Promise.all([ended, runner?.ended]);',
      },
    ],
  },
];
