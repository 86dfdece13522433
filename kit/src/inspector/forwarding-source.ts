import type { UnknownEvent } from 'stablehooks';
import { judgeAttempt } from '../explain/verdict.js';
import { describeAnswer } from '../io/answer.js';
import type { ForwardingAttempt } from '../io/forwarding.js';
import { createSender, type SentDelivery } from '../io/sender.js';
import type { Settings } from '../io/settings.js';
import { KEPT_RESPONSE_BYTES } from '../sandbox/deliveries.js';
import { resendInput } from '../sandbox/endpoints.js';
import { Fifo } from '../sandbox/fifo.js';
import { check, SandboxError } from '../sandbox/validation.js';
import { type AttemptDetail, type AttemptRow, NONE_DROPPED, type StreamEntry } from './api.js';
import { createAttemptEvents, type KeptAttempt, toResult } from './attempt-events.js';
import type { DeliveriesPart, InspectorSource } from './source.js';

export interface ForwardingSource extends InspectorSource {
  add(attempt: ForwardingAttempt): void;
}

interface ForwardingParts {
  readonly inbox: InspectorSource;
  readonly settings: Settings;
  readonly timeoutMs: number;
}

interface KeptDelivery extends KeptAttempt {
  readonly event: UnknownEvent;
  /** `reply` contains only the start of the response. */
  readonly sent: SentDelivery;
  readonly isReplyCut: boolean;
}

/** The newest attempts are kept, up to this number and this total size of their bodies. */
const MAX_ATTEMPTS = 10_000;
const MAX_BYTES = 64 * 1_048_576;

export function createForwardingSource({ inbox, settings, timeoutMs }: ForwardingParts): ForwardingSource {
  const attempts = new Fifo<KeptDelivery>();
  const listeners = new Set<(entry: StreamEntry) => void>();
  let bytes = 0;
  let count = 0;

  function keep(made: Omit<NewAttempt, 'id'>): AttemptRow {
    count += 1;
    const kept = toKept({ id: `att_${count}`, ...made });
    attempts.push(kept);
    bytes += sizeOf(kept);
    while (attempts.length > MAX_ATTEMPTS || (bytes > MAX_BYTES && attempts.length > 1)) {
      const oldest = attempts.shift();
      bytes -= oldest === undefined ? 0 : sizeOf(oldest);
    }
    for (const listener of listeners) listener({ kind: 'changed', view: 'events' });
    return kept.row;
  }

  const find = (id: string) => attempts.toArray().findLast(({ row }) => row.id === id);

  const deliveries: DeliveriesPart = {
    ...createAttemptEvents({
      attempts: () => attempts.toArray(),
      toKept: (kept) => kept,
      // The inbox already says which events will run again.
      pending: () => new Set<string>(),
      dropped: () => NONE_DROPPED,
    }),
    now: Date.now,
    async find(id) {
      const kept = find(id);
      return kept && toDetail(kept, settings);
    },
    async resend(id, change) {
      const { url, body } = check(resendInput, change);
      const kept = find(id);
      if (kept === undefined) {
        throw new SandboxError(
          'ERR_SANDBOX_NOT_FOUND',
          'This attempt is no longer available. Resend a newer one.',
        );
      }
      const { event, sent } = kept;
      const sender = await createSender(url ?? sent.url, settings, timeoutMs);
      const resent = await sender.sendKept(body === undefined ? sent.body : Buffer.from(body));
      const edited = body !== undefined || kept.row.edited;
      const elsewhere = kept.row.elsewhere === true || (url !== undefined && url !== sent.url);
      return keep({ event, attempt: 1, sent: resent, edited, elsewhere });
    },
  };

  return {
    ...inbox,
    deliveries,
    add: ({ event, attempt, sent }) => {
      keep({ event, attempt, sent });
    },
    subscribe(listener, isWatched) {
      listeners.add(listener);
      const unsubscribe = inbox.subscribe(listener, isWatched);
      return () => {
        listeners.delete(listener);
        unsubscribe();
      };
    },
  };
}

interface NewAttempt {
  readonly id: string;
  readonly event: UnknownEvent;
  readonly attempt: number;
  readonly sent: SentDelivery;
  readonly edited?: boolean | undefined;
  readonly elsewhere?: boolean | undefined;
}

function toKept({ id, event, attempt, sent, edited, elsewhere }: NewAttempt): KeptDelivery {
  const { at, url, headers, body, answer, reply } = sent;
  // A view of the first bytes would keep the whole body in memory, so the bytes are copied.
  const start = reply && {
    headers: reply.headers,
    body: Buffer.from(reply.body.subarray(0, KEPT_RESPONSE_BYTES)),
  };
  return {
    row: {
      ...{ id, at: at.toISOString(), eventId: event.id, type: event.type, endpoint: url, attempt },
      ...{ edited, elsewhere },
      ...toResult(answer),
      faults: [],
    },
    at: at.getTime(),
    // The bodies are decoded only for a search.
    bodies: () => [Buffer.from(body).toString(), start?.body.toString() ?? ''],
    event,
    sent: { at, url, headers, body, answer, reply: start },
    isReplyCut: (reply?.body.length ?? 0) > KEPT_RESPONSE_BYTES,
  };
}

function sizeOf({ sent }: KeptDelivery): number {
  return sent.body.length + (sent.reply?.body.length ?? 0);
}

async function toDetail({ row, sent, isReplyCut }: KeptDelivery, settings: Settings): Promise<AttemptDetail> {
  const { url, headers, body, answer, reply } = sent;
  const { header, encoding, prefix } = settings.signature;
  const signing = { secret: await settings.secret(), signatureHeader: header, encoding, prefix };
  return {
    ...row,
    request: { method: 'POST', url, headers, body: Buffer.from(body).toString('base64') },
    response:
      answer.kind === 'reply' && reply !== undefined
        ? {
            status: answer.status,
            headers: reply.headers,
            body: reply.body.toString('base64'),
            cut: isReplyCut,
          }
        : null,
    error: answer.kind === 'reply' ? null : describeAnswer(answer),
    verdict: await judgeAttempt({ headers, body, answer }, signing),
  };
}
