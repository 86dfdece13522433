import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import {
  createPrinter,
  formatDuration,
  toPlain,
  toPrintedJson,
  toTable,
  wrapWords,
} from '../../src/io/output.js';
import { parseDuration } from '../../src/io/settings.js';

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
    ['NO_COLOR and FORCE_COLOR', { env: { NO_COLOR: '1', FORCE_COLOR: '1' } }],
    ['a dumb terminal', { env: { TERM: 'dumb' } }],
    ['--no-color', { color: false }],
  ] as const)('colours are not printed under %s', ([, options]) => {
    expect(print(options).stdout).toBe('no\n');
  });

  test('FORCE_COLOR prints colours into a pipe, and FORCE_COLOR=0 does not on a terminal', () => {
    expect(print({ isTTY: false, env: { FORCE_COLOR: '1' } }).stdout).toContain('\u001b[31m');
    expect(print({ env: { FORCE_COLOR: '0' } }).stdout).toBe('no\n');
    expect(print({ isTTY: false, color: false, env: { FORCE_COLOR: '1' } }).stdout).toBe('no\n');
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
  test('a table aligns its columns under coloured cells as well', () => {
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

describe('JSON that is printed', () => {
  const hostile = [...range(0x00, 0x1f), ...range(0x7f, 0x9f), '\u2028', '\u2029']
    .concat(range(0x202a, 0x202e), range(0x2066, 0x2069))
    .join('');

  test('no control character is left in it, and it is JSON of the same value', () => {
    const value = { [`key${hostile}`]: [`note${hostile}é日🪙`] };
    const text = toPrintedJson(JSON.stringify(value));
    expect(toPlain(text.replaceAll('\n', ''))).toBe(text.replaceAll('\n', ''));
    expect(JSON.parse(text)).toEqual(value);
    expect(text).toContain('\\u007f\\u0080');
    expect(text).toContain('é日🪙');
  });

  test('indented JSON has no control character but its line breaks, and any value stays the same', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(...hostile), (value, character) => {
        const text = toPrintedJson(JSON.stringify({ [character]: value, text: character }));
        expect(toPlain(text.replaceAll('\n', ''))).toBe(text.replaceAll('\n', ''));
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify({ [character]: value, text: character })));
      }),
    );
  });

  test.for([
    { where: 'on a terminal', isTTY: true },
    { where: 'into a pipe', isTTY: false },
  ])('--json prints no control character $where', ({ isTTY }) => {
    let stdout = '';
    const stream = {
      isTTY,
      write(text: string) {
        stdout += text;
      },
    };
    const printer = createPrinter({ stdout: stream, stderr: stream, env: {}, json: true, color: true });
    printer.print({ text: '', data: { note: '\u009b2K\u202e' } });
    expect(stdout).toBe('{"note":"\\u009b2K\\u202e"}\n');
  });
});

function range(first: number, last: number): readonly string[] {
  return Array.from({ length: last - first + 1 }, (_, index) => String.fromCharCode(first + index));
}

describe('long lines', () => {
  test('a long line is continued below its text, at a word', () => {
    expect(wrapWords('found       1 not yet in this inbox', 30)).toBe(
      'found       1 not yet in this\n            inbox',
    );
    expect(wrapWords('  fix: save the body byte for byte', 20)).toBe('  fix: save the body\n  byte for byte');
  });

  test('no line is wider than the terminal unless one word is, and no word is lost', () => {
    const word = fc.oneof(
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }),
      fc.constant('日本語'),
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 30 }), fc.integer({ min: 20, max: 120 }), (words, columns) => {
        const clean = words.map((each) => each.replaceAll(/\s/g, '') || 'x');
        const wrapped = wrapWords(clean.join(' '), columns);
        expect(wrapped.split(/\s+/)).toEqual(clean.join(' ').split(/\s+/));
        for (const line of wrapped.split('\n')) {
          if (line.trim().includes(' ')) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
        }
      }),
    );
  });

  test('a table aligns wide characters', () => {
    const table = toTable(
      ['name', 'n'],
      [
        ['日本', '1'],
        ['ab', '2'],
      ],
    );
    expect(table).toBe('NAME  N\n日本  1\nab    2');
  });
});

test('a duration is printed as a flag takes it', () => {
  expect([300_000, 1_500, 86_400_000, 7_200_000, 0].map(formatDuration)).toEqual([
    '5m',
    '1500ms',
    '1d',
    '2h',
    '0ms',
  ]);
  fc.assert(
    fc.property(fc.nat({ max: 1_000_000_000 }), (ms) => {
      expect(parseDuration(formatDuration(ms))).toBe(ms);
    }),
  );
});
