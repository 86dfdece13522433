import type { InboxCount, InboxState } from 'stablehooks';
import { health } from 'stablehooks/health';
import { groupErrors } from '../explain/error-groups.js';
import { countOf } from '../io/output.js';
import { type Faults, NO_FAULTS } from '../sandbox/faults.js';
import type { SandboxOperations } from '../sandbox/index.js';
import { ATTEMPT_KINDS, type AttemptKind, type OverviewCheck, type OverviewReport } from './api.js';
import type { DeliveriesPart, InboxPart, InspectorSource } from './source.js';

/** How long an answer is shared by pages, in ms. */
const KEEP_MS = 1_000;
/** After a slow read, it is shared for this many times as long. */
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

const NOTHING: Part = { tone: 'neutral', verdict: 'Nothing to judge.', checks: [], states: [], errors: null };

const TONES = { failing: 'bad', warning: 'doubtful', neutral: 'neutral', ok: 'good' } as const;

async function ofInbox({ operations }: InboxPart): Promise<Part> {
  const { tone, verdict, checks } = await health(operations);
  return {
    tone: TONES[tone],
    verdict,
    checks: checks.map((check) => ({ ...check, tone: TONES[check.tone] })),
    states: byUrgency(await operations.count()),
    errors: await groupErrors(operations),
  };
}

/** States in which events may need a person come first. */
const URGENCY: readonly InboxState[] = ['dead', 'failed', 'leased', 'received', 'parked', 'done'];

function byUrgency(counts: readonly InboxCount[]): readonly InboxCount[] {
  return counts.toSorted((a, b) => URGENCY.indexOf(a.state) - URGENCY.indexOf(b.state));
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
      "answered 2xx without effect: ignored, parked or dead. Add the handlers, or see the app's inbox.",
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
    errors: null,
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
