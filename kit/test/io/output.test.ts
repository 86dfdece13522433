import { describe, expect, test } from 'vitest';
import { createPrinter, toPlain, toTable } from '../../src/io/output.js';

function print({ isTTY = true, env = {}, json = false, color = true } = {}) {
  const out = { stdout: '', stderr: '' };
  const stream = (name: 'stdout' | 'stderr') => ({
    isTTY,
    write(text: string) {
      out[name] += text;
    },
  });
  const printer = createPrinter({ stdout: stream('stdout'), stderr: stream('stderr'), env, json, color });
  const progress = printer.progress('replay', 4);
  progress.show(1);
  printer.print({ text: printer.paint.bad('no'), data: { good: false } });
  progress.show(2);
  progress.clear();
  return out;
}

describe('colours', () => {
  test('colours are printed on a terminal only', () => {
    expect(print().stdout).toBe('\u001b[31mno\u001b[39m\n');
    expect(print({ isTTY: false }).stdout).toBe('no\n');
  });

  test.for([
    ['NO_COLOR', { env: { NO_COLOR: '1' } }],
    ['a dumb terminal', { env: { TERM: 'dumb' } }],
    ['--no-color', { color: false }],
  ] as const)('colours are not printed under %s', ([, options]) => {
    expect(print(options).stdout).toBe('no\n');
  });

  test('colours are not printed in JSON', () => {
    expect(print({ json: true }).stdout).toBe('{"good":false}\n');
  });
});

describe('the progress bar', () => {
  test('the progress bar is drawn on a terminal, and removed before a line and at the end', () => {
    expect(print().stderr).toBe(
      '\rreplay [######..................] 1/4\u001b[K\r\u001b[K\rreplay [############............] 2/4\u001b[K\r\u001b[K',
    );
  });

  test('the progress bar is not drawn into a pipe', () => {
    expect(print({ isTTY: false }).stderr).toBe('');
  });
});

describe('a table', () => {
  test('a table aligns its columns under coloured cells, too', () => {
    const paint = (text: string) => `<${text}>`;
    const rows = [
      ['a', { text: 'yes', paint }, 'x'],
      ['long', { text: 'n', paint }, ''],
    ];
    expect(toTable(['one', 'two', 'three'], rows)).toBe('ONE   TWO  THREE\na     <yes>  x\nlong  <n>');
  });

  test('control characters in a table cell are replaced', () => {
    expect(toPlain('evt\u001b[2J\r\n\u202e1')).toBe('evt·[2J···1');
  });
});

test('a table can have more rows than a call takes arguments', () => {
  const rows = Array.from({ length: 200_000 }, (_, index) => [String(index), 'x']);
  const lines = toTable(['id', 'name'], rows).split('\n');
  expect(lines).toHaveLength(rows.length + 1);
  expect(lines[1]).toBe('0       x');
});
