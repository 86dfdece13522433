import type { InboxCount, InboxState } from 'stablehooks';
import { POLL_NOTE, type PollState, readPollState } from 'stablehooks/catch-up';
import { type Health, type HealthCheck, health } from 'stablehooks/health';
import { countOf } from '../io/output.js';
import { type Faults, NO_FAULTS } from '../sandbox/faults.js';
import type { SandboxOperations } from '../sandbox/index.js';
import { ATTEMPT_KINDS, type AttemptKind, type OverviewCheck, type OverviewReport } from './api.js';
import type { DeliveriesPart, InboxPart, InspectorSource } from './source.js';

/** How long an answer is shared by pages, in ms. */
const KEEP_MS = 1_000;
/** After a slow read, it is shared for so many times as long. */
const KEEP_FACTOR = 20;

/** Returns whether all is well. Pages that ask at the same time share one answer. */
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

const NOTHING: Part = { tone: 'neutral', verdict: 'Nothing to judge.', checks: [], states: [] };

/** The finding of an unhealthy check, for the sentence of the verdict. */
const FINDINGS: Partial<Record<HealthCheck['name'], (count: number) => string>> = {
  coverage: () => 'the list is not proven',
  gaps: (count) => countOf(count, 'open gap'),
  due: (count) => `${countOf(count, 'due event')} that no process runs`,
  leases: (count) => countOf(count, 'lapsed lease'),
  dead: (count) => countOf(count, 'dead event'),
};

async function ofInbox({ operations }: InboxPart): Promise<Part> {
  // Read once: the verdict and the checks must speak of the same state.
  const counts = await operations.count();
  const note = await operations.readNote(POLL_NOTE);
  const readNote = () => note;
  const poll = await readPollState({ readNote });
  const { healthy, checks } = await health({
    ...operations,
    readNote,
    count: async (filter) => (filter === undefined ? counts : operations.count(filter)),
  });
  const isEmpty = counts.every(({ count }) => count === 0);
  const toTone = ({ name, healthy: isHealthy, shown, count }: HealthCheck) => {
    if (!isHealthy) return 'bad';
    if (!shown) return name === 'pull' || (name === 'push' && isEmpty) ? 'neutral' : 'doubtful';
    return (name === 'failed' || name === 'parked') && count ? 'doubtful' : 'good';
  };
  const ofCheck = (check: HealthCheck): OverviewCheck => {
    const { name, message, count } = check;
    return { name, tone: toTone(check), message, count };
  };
  const isProven = checks.every(({ name, shown }) => name !== 'coverage' || shown);
  return {
    tone: !healthy ? 'bad' : isProven ? 'good' : 'doubtful',
    verdict: healthy ? toGoodVerdict(poll, isProven) : toBadVerdict(checks),
    checks: checks.map(ofCheck),
    states: byUrgency(counts),
  };
}

/** States in which events can need a person come first. */
const URGENCY: readonly InboxState[] = ['dead', 'failed', 'leased', 'received', 'parked', 'done'];

function byUrgency(counts: readonly InboxCount[]): readonly InboxCount[] {
  return counts.toSorted((a, b) => URGENCY.indexOf(a.state) - URGENCY.indexOf(b.state));
}

/** The verdict where every check is healthy. It says what was not shown. */
function toGoodVerdict({ watermark, gaps }: PollState, isProven: boolean): string {
  const runs = 'Everything due runs.';
  if (!isProven)
    return `${runs} Whether events are missing is unknown, because no poll has proven anything yet.`;
  const except = gaps.length > 0 ? `, except in ${countOf(gaps.length, 'acknowledged gap')}` : '';
  return `All is well. ${runs} The list proves that nothing is missing until ${new Date(watermark ?? 0).toISOString()}${except}.`;
}

function toBadVerdict(checks: Health['checks']): string {
  const findings = checks
    .filter((check) => !check.healthy)
    .map(({ name, count }) => FINDINGS[name]?.(count ?? 0) ?? name);
  return `Needs you: ${findings.join(', ')}.`;
}

const KIND_CHECKS: Readonly<Record<Exclude<AttemptKind, 'accepted'>, readonly [some: string, none: string]>> =
  {
    'wrongly-accepted': [
      'accepted although the signature was wrong. The endpoint does not verify signatures: fix that first.',
      'No delivery with a wrong signature was accepted.',
    ],
    refused: ['refused by the endpoint. Open one: it says why, and what to change.', 'No event is refused.'],
    failed: ['answered with an error of the endpoint. The newest shows its answer.', 'No event fails.'],
    unanswered: [
      'without an answer. Check that the endpoint runs at its URL.',
      'Every delivery was answered.',
    ],
    'without-effect': [
      'answered 2xx without effect: ignored, parked or dead. Add the handlers, or see the inbox of the app.',
      'No answer was without effect.',
    ],
  };

async function ofDeliveries(deliveries: DeliveriesPart): Promise<Part> {
  const { states: found } = await deliveries.counts({});
  const eventsOf = (state: AttemptKind) => found?.find((each) => each.state === state)?.count ?? 0;
  const total = ATTEMPT_KINDS.reduce((sum, kind) => sum + eventsOf(kind), 0);
  const kinds = Object.keys(KIND_CHECKS) as (keyof typeof KIND_CHECKS)[];
  const checks = kinds.map((name): OverviewCheck => {
    const count = eventsOf(name);
    const [some, none] = KIND_CHECKS[name];
    const tone = count === 0 ? 'good' : name === 'without-effect' ? 'doubtful' : 'bad';
    return { name, tone, message: count === 0 ? none : `${countOf(count, 'event')} ${some}`, count };
  });
  const forged = eventsOf('wrongly-accepted');
  const missing = total - eventsOf('accepted') - forged;
  const findings = [
    ...(forged > 0 ? [`${countOf(forged, 'event')} accepted with a wrong signature`] : []),
    ...(missing > 0
      ? [`${missing.toLocaleString('en')} of ${countOf(total, 'event')} not accepted by the endpoint`]
      : []),
  ];
  const verdict =
    total === 0
      ? 'No event was delivered yet. Fire one in the sandbox.'
      : findings.length === 0
        ? `All is well: the endpoint accepted ${total === 1 ? 'the event' : `all ${countOf(total, 'event')}`}.`
        : `Needs you: ${findings.join(', ')}.`;
  return {
    tone: total === 0 ? 'neutral' : findings.length === 0 ? 'good' : 'bad',
    verdict,
    checks,
    states: [...kinds, 'accepted' as const].map((state) => ({ state, count: eventsOf(state), oldest: null })),
  };
}

/** Durations of other faults, which do nothing by themselves. */
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
        : `The sandbox injects faults: ${active.join(', ')}. Events that fail by them are marked as injected.`,
    count: active.length,
  };
}
