import pg from 'pg';
import { onTestFinished } from 'vitest';

export interface Plan {
  readonly 'Node Type': string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly Plan[];
}

/** A pool of one connection, whose server reports the plan of each statement, even within functions. */
export function explainingPool(url: string, onPlan: (plan: Plan) => void): pg.Pool {
  const settings = {
    session_preload_libraries: 'auto_explain',
    client_min_messages: 'log',
    'auto_explain.log_min_duration': '0',
    'auto_explain.log_nested_statements': 'on',
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_buffers': 'on',
    'auto_explain.log_format': 'json',
  };
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  const pool = new pg.Pool({ connectionString: url, max: 1, options: options.join(' ') });
  pool.on('connect', (client) =>
    client.on('notice', ({ message = '' }) => {
      const json = /plan:\n(\{.*\})/s.exec(message)?.[1];
      if (json !== undefined) onPlan(JSON.parse(json).Plan);
    }),
  );
  onTestFinished(() => pool.end());
  return pool;
}

/** How many rows the scans of a plan have read, and how many of them read the whole table. */
export function readsOf(plan: Plan): { readonly scans: number; readonly rows: number } {
  const inner = (plan.Plans ?? []).map(readsOf);
  const isScan = /Scan$/.test(plan['Node Type']) && /^(Seq|Index|Bitmap Heap)/.test(plan['Node Type']);
  const rows = (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) * plan['Actual Loops'];
  return {
    scans: inner.reduce((sum, each) => sum + each.scans, plan['Node Type'] === 'Seq Scan' ? 1 : 0),
    rows: inner.reduce((sum, each) => sum + each.rows, isScan ? rows : 0),
  };
}
