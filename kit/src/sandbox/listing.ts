/** How the service lists events: as asked, less what the faults take away or turn round. */
import type { Clock } from './clock.js';
import type { EventLog, SandboxEvent } from './event-log.js';
import type { FaultSource } from './faults.js';

/** A request for the list, already judged. */
export interface ListRequest {
  readonly type?: string | undefined;
  readonly limit: number;
}

export function listEvents(
  { type, limit }: ListRequest,
  parts: { readonly events: EventLog; readonly faults: FaultSource; readonly clock: Clock },
): readonly SandboxEvent[] {
  const { listOrder, listCap, listLagMs } = parts.faults.get();
  const listed = parts.events.list({
    type,
    order: listOrder,
    limit: Math.min(limit, listCap ?? limit),
    until: listLagMs === 0 ? undefined : parts.clock.now() - listLagMs,
  });
  return listed.map((event) =>
    parts.faults.strikes('listWrongDelivered', event.id) ? { ...event, delivered: !event.delivered } : event,
  );
}
