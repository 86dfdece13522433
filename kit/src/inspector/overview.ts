import type { InboxState } from 'stablehooks';
import { listGaps, readPollState } from 'stablehooks/catch-up';
import { type Health, health } from 'stablehooks/health';
import { type ErrorGroups, groupErrors } from '../explain/error-groups.js';
import { countOf } from '../io/output.js';
import { type Faults, NO_FAULTS } from '../sandbox/faults.js';
import type { SandboxOperations } from '../sandbox/index.js';
import type { AttemptKind, FlowNumber, OverviewCheck, OverviewReport } from './api.js';
import type { DeliveriesPart, InboxPart, InspectedInbox, InspectorSource } from './source.js';

/** All pages share the same result for this long. */
const KEEP_MS = 1_000;
/** After a slow read, pages share the result for this many times the duration of the read. */
const KEEP_FACTOR = 20;

export function createOverview(source: InspectorSource): (fresh: boolean) => Promise<OverviewReport> {
  let last: { readonly report: Promise<OverviewReport>; until: number } | undefined;
  return (fresh) => {
    if (last !== undefined && !fresh && performance.now() < last.until) return last.report;
    const begun = performance.now();
    const current = { report: readOverview(source), until: Number.POSITIVE_INFINITY };
    last = current;
    const end = () => {
      const tookMs = performance.now() - begun;
      current.until = begun + tookMs + Math.max(KEEP_MS, KEEP_FACTOR * tookMs);
    };
    current.report.then(end, () => {
      current.until = 0;
    });
    return current.report;
  };
}

async function readOverview({ inbox, deliveries, service }: InspectorSource): Promise<OverviewReport> {
  const part = inbox ? await ofInbox(inbox) : deliveries ? await ofDeliveries(deliveries) : NOTHING;
  const checks = [...part.checks, ...(service ? [faultsOf(service)] : [])];
  const order = ['bad', 'doubtful', 'neutral', 'good'] as const;
  return {
    ...part,
    checks: checks.toSorted((a, b) => order.indexOf(a.tone) - order.indexOf(b.tone)),
    at: Date.now(),
  };
}

type Part = Omit<OverviewReport, 'at'>;

const NOTHING: Part = {
  tone: 'neutral',
  verdict: 'Nothing to judge.',
  checks: [],
  flow: [],
  errors: null,
};

const TONES = { failing: 'bad', warning: 'doubtful', neutral: 'neutral', ok: 'good' } as const;
const HOUR_MS = 3_600_000;
const MAX_CAUSES = 2;

async function ofInbox({ operations }: InboxPart): Promise<Part> {
  const judged = await health(operations);
  const errors = await groupErrors(operations);
  const since = await findAges(operations, judged);
  return {
    tone: TONES[judged.tone],
    verdict: judged.verdict,
    checks: judged.checks.map(({ name, tone, message, count }) => {
      const causes = { dead: causesOf(errors, 'dead'), failing: causesOf(errors, 'failed') };
      const known = { since: since[name] ?? null, causes: causes[name as keyof typeof causes] ?? [] };
      return { name, tone: TONES[tone], message, count, ...known };
    }),
    flow: await readFlow(operations),
    errors,
  };
}

function causesOf({ groups }: ErrorGroups, state: InboxState): readonly string[] {
  return groups.flatMap((group) => (group.state === state ? group.error : [])).slice(0, MAX_CAUSES);
}

async function findAges(
  inbox: InspectedInbox,
  { counts }: Health,
): Promise<Readonly<Record<string, number | null | undefined>>> {
  const lapsed = await inbox.count({ state: 'leased', dueUntil: Date.now() });
  const { watermark, lastAttempt } = await readPollState(inbox);
  const open = (await listGaps(inbox)).filter(({ state }) => state === 'open');
  return {
    leases: countIn(lapsed, 'leased').oldest,
    dead: countIn(counts, 'dead').oldest,
    failing: countIn(counts, 'failed').oldest,
    poll: lastAttempt?.failingSince,
    coverage: watermark,
    gaps: open.length === 0 ? null : Math.min(...open.map(({ from }) => Date.parse(from))),
  };
}

const countIn = (counts: Health['counts'], state: InboxState) =>
  counts.find((each) => each.state === state) ?? { count: 0, oldest: null };

const inWords = (count: number) => count.toLocaleString('en');

async function readFlow(inbox: InspectedInbox): Promise<readonly FlowNumber[]> {
  const now = Date.now();
  const recent = { receivedSince: now - HOUR_MS };
  const counts = await inbox.count(recent);
  const ignored = countIn(await inbox.count({ ...recent, ignored: true }), 'done').count;
  const due = countIn(await inbox.count({ state: 'received', dueUntil: now }), 'received');
  const [done, failed, dead] = (['done', 'failed', 'dead'] as const).map(
    (state) => countIn(counts, state).count,
  ) as [number, number, number];
  const since = due.oldest === null ? '' : `, the oldest since ${new Date(due.oldest).toISOString()}`;
  return [
    {
      ...{ name: 'Received', count: counts.reduce((sum, { count }) => sum + count, 0), tone: 'neutral' },
      note: due.count === 0 ? 'No event is waiting.' : `${inWords(due.count)} due but not run yet${since}.`,
    },
    {
      ...{ name: 'Done', count: done - ignored, tone: 'neutral' },
      note: ignored === 0 ? null : `${inWords(ignored)} more had no handler.`,
    },
    {
      ...{
        name: 'Failed',
        count: failed + dead,
        tone: dead > 0 ? 'bad' : failed > 0 ? 'doubtful' : 'neutral',
      },
      note: failed + dead === 0 ? null : `${inWords(failed)} to run again, ${inWords(dead)} dead.`,
    },
  ];
}

const KIND_CHECKS: Readonly<Record<Exclude<AttemptKind, 'accepted'>, readonly [some: string, none: string]>> =
  {
    'wrongly-accepted': [
      'accepted despite a wrong signature. The endpoint does not verify signatures. Fix that first.',
      'No delivery with an invalid signature was accepted.',
    ],
    refused: [
      'refused by the endpoint. Open an event to see why, and what to change.',
      'No events were refused.',
    ],
    failed: ['failed in the endpoint. Open the newest event to see the response.', 'No events failed.'],
    unanswered: [
      'without a response. Check that the endpoint is running at its URL.',
      'Every delivery got a response.',
    ],
    'without-effect': [
      "accepted with a 2xx, but ignored, parked or dead. Add the handlers, or see the app's inbox.",
      'No event was accepted without effect.',
    ],
  };

async function ofDeliveries(deliveries: DeliveriesPart): Promise<Part> {
  const { states, dropped } = await deliveries.counts({});
  const eventsOf = (state: AttemptKind) => states?.find((each) => each.state === state)?.count ?? 0;
  const kinds = Object.keys(KIND_CHECKS) as (keyof typeof KIND_CHECKS)[];
  const [accepted, forged] = [eventsOf('accepted'), eventsOf('wrongly-accepted')];
  const { exhausted, delivered, unattempted } = dropped;
  const kept = kinds.reduce((sum, kind) => sum + eventsOf(kind), accepted);
  const missing = kept - accepted - forged + exhausted;
  const isUnused = kept + exhausted + delivered === 0;
  const checks = kinds.map((name): OverviewCheck => {
    const count = eventsOf(name);
    const [some, none] = KIND_CHECKS[name];
    const tone = count > 0 ? (name === 'without-effect' ? 'doubtful' : 'bad') : isUnused ? 'neutral' : 'good';
    const message =
      count > 0
        ? `${countOf(count, 'event')} ${some}`
        : isUnused
          ? 'Not shown: no event has been delivered yet.'
          : none;
    return { name, tone, message, count, since: null, causes: [] };
  });
  if (exhausted > 0) {
    const message = `${countOf(exhausted, 'event')} never accepted, and their attempts are no longer kept. Raise maxAttemptsKept to keep more attempts.`;
    checks.unshift({ name: 'dropped', tone: 'bad', message, count: exhausted, since: null, causes: [] });
  }
  const findings = [
    ...(forged > 0 ? [`${countOf(forged, 'event')} accepted with an invalid signature`] : []),
    ...(missing > 0
      ? [
          `${inWords(missing)} of ${countOf(kept + exhausted + delivered, 'event')} not accepted by the endpoint`,
        ]
      : []),
  ];
  const older = delivered === 0 ? '' : `, and returned a 2xx for ${inWords(delivered)} older ones`;
  const all = accepted === 1 ? 'the event' : `all ${countOf(accepted, 'event')}`;
  const well = `the endpoint accepted ${all}${older === '' ? '' : ' with attempts that are kept'}${older}`;
  const waiting = `${inWords(unattempted)} ${unattempted === 1 ? 'is' : 'are'} not attempted yet`;
  const isWell = findings.length === 0 && !isUnused;
  return {
    tone: findings.length > 0 ? 'bad' : isWell && unattempted === 0 ? 'good' : 'neutral',
    verdict:
      findings.length > 0
        ? `Needs you: ${findings.join(', ')}.`
        : isUnused
          ? `No event has been delivered yet${unattempted > 0 ? `: ${waiting}` : '. Fire one in the sandbox'}.`
          : unattempted > 0
            ? `So far ${well}; ${waiting}.`
            : `All is well: ${well}.`,
    checks,
    errors: null,
    flow: await readDelivered(deliveries),
  };
}

async function readDelivered(deliveries: DeliveriesPart): Promise<readonly FlowNumber[]> {
  const { states } = await deliveries.counts({ since: deliveries.now() - HOUR_MS });
  const total = (states ?? []).reduce((sum, { count }) => sum + count, 0);
  const accepted = states?.find(({ state }) => state === 'accepted')?.count ?? 0;
  const missing = total - accepted;
  return [
    { name: 'Sent', count: total, tone: 'neutral', note: null },
    { name: 'Accepted', count: accepted, tone: 'neutral', note: null },
    { name: 'Not accepted', count: missing, tone: missing > 0 ? 'bad' : 'neutral', note: null },
  ];
}

/** These durations belong to other faults and have no effect by themselves. */
const FAULT_PARTS: ReadonlySet<keyof Faults> = new Set([
  ...(['reorderMs', 'delayMs', 'apiRetryAfterMs', 'apiSlowMs'] as const),
]);

function isActive(name: keyof Faults, faults: Faults): boolean {
  const value = faults[name];
  if (typeof value === 'object' && value !== null) return value.next > 0;
  return !FAULT_PARTS.has(name) && value !== NO_FAULTS[name];
}

function faultsOf(sandbox: SandboxOperations): OverviewCheck {
  const faults = sandbox.faults.get();
  const names = Object.keys(NO_FAULTS) as (keyof Faults)[];
  const active = names.filter((name) => isActive(name, faults));
  return {
    name: 'faults',
    tone: active.length === 0 ? 'good' : 'doubtful',
    message:
      active.length === 0
        ? 'The sandbox injects no faults.'
        : `The sandbox injects faults: ${active.join(', ')}. Events that fail because of these faults are marked as injected.`,
    count: active.length,
    ...{ since: null, causes: [] },
  };
}
