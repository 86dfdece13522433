/** The alert rules and the dashboard as they are shipped, and the parser of Prometheus. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root, textOf } from '../project/source.js';

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly datasource?: unknown;
  readonly targets?: readonly { readonly expr: string; readonly datasource?: unknown }[];
  readonly options?: unknown;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string; readonly custom?: unknown } };
}

interface Variable {
  readonly name: string;
  readonly type: string;
  readonly query: { readonly query?: string };
}

export const RULES = join(root, 'docs/operations/alerts.yml');

const file: { readonly groups: readonly { readonly rules: readonly Rule[] }[] } = parse(
  textOf('docs/operations/alerts.yml'),
);

export const rules = file.groups.flatMap((group) => group.rules);

export const alerts = rules.flatMap((rule) =>
  rule.alert === undefined ? [] : [{ ...rule, alert: rule.alert }],
);

export const dashboardText = textOf('docs/operations/dashboard.json');

export const dashboard: {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly Variable[] };
} = JSON.parse(dashboardText);

/** The expressions of the panels, with values for the variables of Grafana. */
export const panelExpressions = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({
    title,
    expression: expr.replaceAll('$__rate_interval', '5m').replaceAll('$job', '.*'),
  })),
);

/** What promtool prints. It throws an error with that if it fails. */
export function promtool(...args: readonly string[]): string {
  try {
    return execFileSync('promtool', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as Error & Record<'stdout' | 'stderr', string>;
    throw new Error(
      `promtool failed. Install it: apt-get install prometheus. ${message}\n${stdout}${stderr}`,
    );
  }
}
