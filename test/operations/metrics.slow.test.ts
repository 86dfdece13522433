/** That alerts and panels name what a receiver exports: a wrong name would be silent for ever. */
import { INBOX_STATES } from 'stablehooks';
import { beforeAll, describe, expect, test } from 'vitest';
import { textOf } from '../project/source.js';
import { CASES, HEALTHY } from './alert-cases.js';
import { dashboard, panelExpressions, rules } from './documents.js';
import { parseExpression, type Selector } from './promql.js';
import { type ExportedMetrics, exportedMetrics } from './real-metrics.js';

const queries = [
  ...rules.map(({ record, alert, expr }) => ({ title: record ?? alert ?? '', expression: expr })),
  ...panelExpressions.map(({ title, expression }) => ({ title: `panel ${title}`, expression })),
];

/** Prometheus adds them: to what it scrapes, to histograms, to alerts. */
const OF_PROMETHEUS = ['job', 'instance', 'le', 'alertname', 'alertstate', 'severity'];

/** Values that a short run does not show: codes of errors, and what {@link INBOX_STATES} and other lists name. */
const KNOWN_VALUES: readonly string[] = [
  ...INBOX_STATES,
  ...(textOf('docs/errors.md').match(/ERR_[A-Z_]+/g) ?? []),
  ...['handled', 'failed', 'dead', 'busy', 'unavailable', 'queue', 'stopped', 'unconfirmed'],
];

let exported: ExportedMetrics;
beforeAll(async () => {
  exported = await exportedMetrics();
});

/** The labels of a metric that is exported or recorded, or `undefined`. */
function labelsOf(name: string): readonly string[] | undefined {
  if (name === 'ALERTS') return OF_PROMETHEUS;
  const labels = exported.get(name)?.keys();
  if (labels !== undefined) return [...labels, ...OF_PROMETHEUS];
  const rule = rules.find(({ record }) => record === name);
  return rule && parseExpression(rule.expr).grouping;
}

function problemsOf({ names, matchers }: Selector): readonly string[] {
  const name = names.find((spelling) => labelsOf(spelling) !== undefined);
  if (name === undefined) return [`${names.join(' or ')} is not exported`];
  const labels = labelsOf(name) ?? [];
  return matchers.flatMap(({ label, value, operator }) => {
    if (!labels.includes(label)) return [`${name} has no label ${label}`];
    if (OF_PROMETHEUS.includes(label) || value === '') return [];
    const seen = [...exported.values()].flatMap((known) => [...(known.get(label) ?? [])]);
    const values = [...seen, ...KNOWN_VALUES];
    const alternatives = operator.includes('~') ? value.split('|') : [value];
    return alternatives
      .filter((one) => !values.some((known) => new RegExp(`^(?:${one})$`).test(known)))
      .map((one) => `${label} of ${name} is never ${one}`);
  });
}

describe('what an alert or a panel names', () => {
  test.each(queries)('is exported by a receiver: $title', ({ expression }) => {
    const { selectors, grouping } = parseExpression(expression);
    expect(selectors.flatMap(problemsOf)).toEqual([]);
    const labels = selectors.flatMap(({ names }) => names.flatMap((name) => labelsOf(name) ?? []));
    const all = selectors.some(({ names }) => names.includes('ALERTS'))
      ? [...labels, 'error_type', 'stablehooks_inbox_state']
      : labels;
    expect(grouping.filter((label) => !all.includes(label))).toEqual([]);
  });

  test('is exported by a receiver: the variables of the dashboard', () => {
    const named = dashboard.templating.list.flatMap(
      ({ query }) => /^label_values\((\w+), job\)$/.exec(query.query ?? '')?.[1] ?? [],
    );
    expect(named).toEqual(['stablehooks_inbox_events']);
    expect(exported.has('stablehooks_inbox_events')).toBe(true);
  });

  test('is exported by a receiver: the series that the alerts are tested with', () => {
    const series = [HEALTHY, ...CASES.flatMap(({ fires, silent }) => [fires, silent])].flatMap(Object.keys);
    const selectors = series.flatMap((selector) => parseExpression(selector).selectors);
    expect(selectors.length).toBeGreaterThan(100);
    expect(selectors.flatMap(problemsOf)).toEqual([]);
  });
});

test('every metric of a receiver is on the dashboard', () => {
  const shown = new Set(
    panelExpressions.flatMap(({ expression }) =>
      parseExpression(expression).selectors.flatMap(({ names }) => names),
    ),
  );
  const wanted = [...exported.keys()].filter((name) => !/^target_info$|_(count|sum)$/.test(name));
  expect(wanted).toHaveLength(7);
  expect(wanted.filter((name) => !shown.has(name))).toEqual([]);
});
