/** The alert rules, by promtool: that Prometheus loads them, and on which series each fires. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HEALTH_CHECKS } from 'stablehooks/health';
import { afterAll, describe, expect, test } from 'vitest';
import { headingsOf, sectionOf } from '../project/markdown.js';
import { textOf } from '../project/source.js';
import { type AlertCase, CASES, HEALTHY, type Series } from './alert-cases.js';
import { alerts, promtool, RULES, rules } from './documents.js';

const folder = mkdtempSync(join(tmpdir(), 'stablehooks-rules-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs tests of the rules, which are evaluated in this interval. JSON is YAML. */
function runTests(tests: readonly object[], evaluationInterval = '1m'): string {
  const path = join(folder, 'tests.yml');
  writeFileSync(
    path,
    JSON.stringify({ rule_files: [RULES], evaluation_interval: evaluationInterval, tests }),
  );
  return promtool('test', 'rules', path);
}

/** Metrics of which exporters append the unit to the name, unless they are those of JavaScript. */
const IN_SECONDS = /^(stablehooks_inbox_oldest|stablehooks_event_age)/;

/** The series as a collector names them. */
const withUnits = (series: Series): Series =>
  Object.fromEntries(
    Object.entries(series).map(([name, values]) => [name.replace(IN_SECONDS, '$1_seconds'), values]),
  );

const isRenamed = ({ fires }: AlertCase) => Object.keys(fires).some((name) => IN_SECONDS.test(name));

/** What promtool runs: series, when to evaluate, and what fires then. */
function promtoolTest({
  name,
  series,
  at,
  step = 1,
  firing,
  named,
}: {
  /** Of the alert, and what it shows. */
  readonly name: string;
  readonly series: Series;
  readonly at: number;
  readonly step?: number | undefined;
  readonly firing: readonly string[];
  readonly named?: AlertCase;
}) {
  const rule = alerts.find(({ alert }) => alert === named?.alert);
  return {
    name,
    interval: `${step}m`,
    input_series: Object.entries(series).map(([selector, values]) => ({
      series: selector.replace('{', '{job="app", messaging_system_name="stablehooks", '),
      values,
    })),
    promql_expr_test: [
      {
        expr: `group by (alertname) (ALERTS{alertstate="firing", alertname=~"${step > 5 ? name.split(' ')[0] : '.*'}"})`,
        eval_time: `${at}m`,
        exp_samples: [...new Set(firing)].map((alertname) => ({
          labels: `{alertname="${alertname}"}`,
          value: 1,
        })),
      },
    ],
    alert_rule_test:
      named === undefined || named.alert === 'StablehooksMetricsMissing'
        ? []
        : [
            {
              eval_time: `${at}m`,
              alertname: named.alert,
              exp_alerts: [
                {
                  exp_labels: { ...rule?.labels, job: 'app', ...named.labels },
                  exp_annotations: {
                    summary: named.summary,
                    runbook: rule?.annotations?.['runbook']?.replace(
                      /{{.*}}/,
                      Object.values(named.labels ?? {}).join(''),
                    ),
                  },
                },
              ],
            },
          ],
  };
}

describe('the alert rules', () => {
  test('are valid rules of Prometheus', () => {
    expect(promtool('check', 'rules', RULES)).toContain(`${rules.length} rules found`);
  });

  test.each<[string, (series: Series) => Series, readonly AlertCase[]]>([
    ['as JavaScript exporters name metrics', (series) => series, CASES],
    // Each test of promtool makes a database, so only the alerts on metrics with another name run again.
    ['as collectors name metrics, with their units', withUnits, CASES.filter(isRenamed)],
  ])('fire when they must, and nothing else fires, %s', (_, rename, cases) => {
    const testsOf = ({ alert, fires, silent, also = [], ...each }: AlertCase) => [
      promtoolTest({
        ...{ name: `${alert} fires`, series: rename({ ...HEALTHY, ...fires }), firing: [alert, ...also] },
        ...{ at: each.at, step: each.step, named: { alert, fires, silent, ...each } },
      }),
      promtoolTest({
        ...{ name: `${alert} does not fire`, series: rename({ ...HEALTHY, ...silent }), firing: [] },
        ...{ at: each.at, step: each.step },
      }),
    ];
    const minutes = cases.filter(({ step = 1 }) => step <= 5);
    const days = cases.filter(({ step = 1 }) => step > 5);
    expect(runTests(minutes.flatMap(testsOf))).toContain('SUCCESS');
    if (days.length > 0) expect(runTests(days.flatMap(testsOf), '1h')).toContain('SUCCESS');
  });

  test('are quiet while an app is healthy, and speak when nothing is exported at all', () => {
    const tests = [5, 40, 90].map((at) =>
      promtoolTest({ name: `healthy at ${at}`, series: HEALTHY, at, firing: [] }),
    );
    const silence = promtoolTest({
      ...{ name: 'nothing', series: { 'other{instance="a"}': '1x100' }, at: 30 },
      firing: ['StablehooksMetricsMissing'],
    });
    expect(runTests([...tests, silence])).toContain('SUCCESS');
  });

  test('have a test each', () => {
    expect(CASES.map(({ alert }) => alert)).toEqual(expect.arrayContaining(alerts.map(({ alert }) => alert)));
    expect(CASES).toHaveLength(alerts.length);
  });

  test.each(alerts)('$alert has a severity, a summary and a section in the runbook', (rule) => {
    expect(rule.labels?.['severity']).toMatch(/^(critical|warning)$/);
    expect(rule.annotations?.['summary']).toMatch(/\.$/);
    const [page = '', anchor = ''] = rule.annotations?.['runbook']?.split('#') ?? [];
    expect(page).toBe('docs/operations.md');
    const isJudge = anchor === '{{ $labels.stablehooks_health_check }}';
    const sections: readonly string[] = isJudge ? HEALTH_CHECKS : [rule.alert];
    for (const section of sections) {
      if (!isJudge) expect(anchor).toBe(section.toLowerCase());
      expect(headingsOf(textOf(page))).toContain(section.toLowerCase());
      expect(sectionOf(textOf(page), section)).toMatch(
        isJudge ? /```console\n\$ .*\*\*Do\*\*:/s : /\*\*Do\*\*:/,
      );
    }
  });
});
