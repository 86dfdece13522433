import { isAccepted, isWithoutEffect, readOutcome } from '../io/delivery.js';
import type { Attempt, Sandbox } from '../sandbox/index.js';
import type { AttemptDetail, AttemptFilter, AttemptKind, AttemptRow } from './api.js';
import type { InspectorSource } from './source.js';
import type { StreamEntry } from './stream.js';

/** A sandbox in this process as the source of an inspector: its deliveries and its world. */
export function fromSandbox(sandbox: Sandbox): InspectorSource {
  const typeOf = (attempt: Attempt) => readType(attempt.request.body);

  function* newestFirst(): Generator<Attempt> {
    const attempts = sandbox.attempts();
    for (let index = attempts.length - 1; index >= 0; index -= 1) {
      const attempt = attempts[index];
      if (attempt !== undefined) yield attempt;
    }
  }

  function find(id: string): Attempt | undefined {
    for (const attempt of newestFirst()) if (idOf(attempt) === id) return attempt;
    return undefined;
  }

  return {
    name: 'sandbox',
    deliveries: {
      list({ limit, before, ...filter }) {
        const rows: AttemptRow[] = [];
        let skipping = before !== undefined;
        for (const attempt of newestFirst()) {
          if (skipping) {
            skipping = idOf(attempt) !== before;
            continue;
          }
          const row = toRow(attempt, typeOf(attempt));
          if (!isSelected(row, attempt, filter)) continue;
          if (rows.length === limit) return { rows, next: rows.at(-1)?.id ?? null };
          rows.push(row);
        }
        return { rows, next: null };
      },
      async find(id) {
        const attempt = find(id);
        return attempt && { ...toDetail(attempt, typeOf(attempt)), verdict: await sandbox.explain(attempt) };
      },
      async resend(id, change) {
        const [deliveryId = ''] = id.split('.');
        return idOf(await sandbox.resend(deliveryId, change));
      },
    },
  } as never;
}
