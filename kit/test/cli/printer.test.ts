/** The printer: colours and bars on a terminal only, and never what NO_COLOR or `--json` forbid. */
import { describe, expect, test } from 'vitest';
import { createPrinter } from '../../src/printer.js';
import { toPlain, toTable } from '../../src/table.js';

function print({ isTTY = true, env = {}, json = false, color = true } = {}) {
  const out = { stdout: '', stderr: '' };
  const stream = (name: 'stdout' | 'stderr') => ({
    isTTY,
    write(text: string) {
      out[name] += text;
    },
  });
  const printer = createPrinter({ stdout: stream('stdout'), stderr: stream('stderr'), env, json, color });
  const progress = printer.progress('replay', { total: 4 });
  progress.show(1);
  printer.print({ text: printer.paint.bad('no'), data: { good: false } });
  progress.show(2);
  progress.clear();
  return out;
}

describe('colours', () => {
  test('are for terminals', () => {
    expect(print().stdout).toBe('\u001b[31mno\u001b[39m\n');
    expect(print({ isTTY: false }).stdout).toBe('no\n');
  });

  test.for([
    ['NO_COLOR', { env: { NO_COLOR: '1' } }],
    ['a dumb terminal', { env: { TERM: 'dumb' } }],
    ['--no-color', { color: false }],
  ] as const)('are not printed under %s', ([, options]) => {
    expect(print(options).stdout).toBe('no\n');
  });

  test('are not in JSON', () => {
    expect(print({ json: true }).stdout).toBe('{"good":false}\n');
  });
});

describe('the bar', () => {
  test('is drawn on a terminal, and gone before a line and at the end', () => {
    expect(print().stderr).toBe(
      '\rreplay [######..................] 1/4\u001b[K\r\u001b[K\rreplay [############............] 2/4\u001b[K\r\u001b[K',
    );
  });

  test('is not drawn into a pipe', () => {
    expect(print({ isTTY: false }).stderr).toBe('');
  });
});

describe('a table', () => {
  test('lines its columns up under painted cells, too', () => {
    const paint = (text: string) => `<${text}>`;
    const rows = [
      ['a', { text: 'yes', paint }, 'x'],
      ['long', { text: 'n', paint }, ''],
    ];
    expect(toTable(['one', 'two', 'three'], { rows })).toBe('ONE   TWO  THREE\na     <yes>  x\nlong  <n>');
  });

  test('holds nothing that steers the terminal', () => {
    expect(toPlain('evt\u001b[2J\r\n\u202e1')).toBe('evt·[2J···1');
  });
});

test('a table holds more rows than a call takes arguments', () => {
  const rows = Array.from({ length: 200_000 }, (_, index) => [String(index), 'x']);
  const lines = toTable(['id', 'name'], { rows }).split('\n');
  expect(lines).toHaveLength(rows.length + 1);
  expect(lines[1]).toBe('0       x');
});
