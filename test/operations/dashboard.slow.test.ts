/** The dashboard, by the types that Grafana publishes and by the parsers of Prometheus. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { root } from '../project/source.js';
import { dashboard, dashboardText, type Panel, panelExpressions, promtool } from './documents.js';
import { parseExpression } from './promql.js';

const { panels } = dashboard;

/** The types of the options of a panel, in `@grafana/schema`. */
const PANELS: Readonly<Record<string, { readonly file: string; readonly fields?: true }>> = {
  stat: { file: 'stat/panelcfg/x/StatPanelCfg_types.gen' },
  table: { file: 'table/panelcfg/x/TablePanelCfg_types.gen' },
  timeseries: { file: 'timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen', fields: true },
};

/**
 * A module in which the compiler compares the dashboard with Grafana's types: names that Grafana does not know, values
 * of the wrong type and values that an enumeration does not have are errors.
 */
function toModule(text: string, given: readonly Panel[]): string {
  const lines = [
    "import type { Dashboard, Panel } from '@grafana/schema';",
    // In JSON the value of an enumeration is its string.
    `type Plain<T> = T extends string ? \`\${T}\` : T extends readonly (infer E)[] ? Plain<E>[]`,
    '  : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;',
    `export const dashboard: Plain<Omit<Dashboard, 'panels'>> & { panels: object[] } = ${text};`,
  ];
  for (const [index, panel] of given.entries()) {
    lines.push(`export const panel${index}: Plain<Panel> = ${JSON.stringify(panel)};`);
    const types = PANELS[panel.type];
    if (types === undefined) continue;
    const module = `import('@grafana/schema/dist/esm/raw/composable/${types.file}')`;
    const value = (part: unknown) => JSON.stringify(part);
    lines.push(`export const options${index}: Plain<${module}.Options> = ${value(panel.options)};`);
    if (types.fields !== true) continue;
    const custom = value(panel.fieldConfig?.defaults.custom);
    lines.push(`export const custom${index}: Plain<${module}.FieldConfig> = ${custom};`);
  }
  return lines.join('\n');
}

function compile(text: string): readonly string[] {
  const path = join(root, 'test/operations/dashboard-of-grafana.ts');
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [path] }, ts.sys, root);
  const host = ts.createCompilerHost({ ...options, skipLibCheck: true });
  const { getSourceFile, fileExists } = host;
  host.fileExists = (name) => name === path || fileExists(name);
  host.getSourceFile = (name, target, ...rest) =>
    name === path ? ts.createSourceFile(name, text, target) : getSourceFile(name, target, ...rest);
  const program = ts.createProgram([path], { ...options, skipLibCheck: true }, host);
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

describe('the dashboard', () => {
  test('has the types that Grafana publishes', () => {
    expect(compile(toModule(dashboardText, panels))).toEqual([]);
  });

  test('asks what Prometheus can parse', () => {
    for (const { expression } of panelExpressions) parseExpression(expression);
    const folder = mkdtempSync(join(tmpdir(), 'stablehooks-panels-'));
    const path = join(folder, 'panels.json');
    const rules = panelExpressions.map(({ expression }, index) => ({
      ...{ record: `panel:${index}`, expr: expression },
    }));
    writeFileSync(path, JSON.stringify({ groups: [{ name: 'panels', rules }] }));
    const said = promtool('check', 'rules', path);
    rmSync(folder, { recursive: true });
    expect(said).toContain(`${panelExpressions.length} rules found`);
  });

  test('has panels with a title, a description, a query and the data source that is chosen', () => {
    const chosen = { type: 'prometheus', uid: `\${datasource}` };
    expect(dashboard.templating.list[0]).toMatchObject({ name: 'datasource', type: 'datasource' });
    for (const { title, description, datasource, targets = [] } of panels) {
      expect(title).not.toBe('');
      expect(description).toMatch(/\.$/);
      expect(targets.length).toBeGreaterThan(0);
      // A target without a data source has that of its panel.
      expect([datasource, ...targets.map((target) => target.datasource ?? chosen)]).toEqual(
        [datasource, ...targets].map(() => chosen),
      );
    }
    const units = panels.map(({ fieldConfig }) => fieldConfig?.defaults.unit ?? 'none');
    expect(units.filter((unit) => !['none', 's', 'ops'].includes(unit))).toEqual([]);
  });
});
