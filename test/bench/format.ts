/** What the benchmarks write: a table in Markdown, and bars in SVG. */

/** Writes a table; the first column is text, the others are numbers. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const rule = head.map((_, index) => (index === 0 ? ':--' : '--:'));
  return [head, rule, ...rows].map(line).join('\n');
}

/** A number with three digits that count. */
export function digits(value: number): string {
  const whole = Math.abs(value) >= 100;
  return whole ? Math.round(value).toLocaleString('en-US') : value.toPrecision(3);
}

/** One group of bars. */
export interface BarGroup {
  readonly title: string;
  readonly bars: readonly { readonly name: string; readonly value: number; readonly ours: boolean }[];
}

const WIDTH = 860;
const LABEL = 330;
const BAR = 18;
const INK = '#57606a';

/** Draws horizontal bars from 0, each group on the scale of all; readable on light and dark pages. */
export function toSvg(
  groups: readonly BarGroup[],
  { title, unit }: { readonly title: string; readonly unit: string },
): string {
  const most = Math.max(...groups.flatMap(({ bars }) => bars.map(({ value }) => value)));
  const shapes: string[] = [text(title, { x: 0, y: 18, size: 15 })];
  let y = 34;
  for (const group of groups) {
    y += 20;
    shapes.push(text(group.title, { x: 0, y, size: 13 }));
    y += 8;
    for (const { name, value, ours } of group.bars) {
      const width = Math.max(1, ((WIDTH - LABEL - 90) * value) / most);
      shapes.push(text(name, { x: LABEL - 8, y: y + 13, size: 12, anchor: 'end' }));
      shapes.push(
        `<rect x="${LABEL}" y="${y}" width="${width.toFixed(1)}" height="${BAR - 4}" fill="${ours ? '#1a7f64' : '#9aa5b1'}"/>`,
      );
      shapes.push(text(`${digits(value)}${unit}`, { x: LABEL + width + 6, y: y + 12, size: 12 }));
      y += BAR;
    }
  }
  const height = y + 10;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeXml(title)}" font-family="system-ui, sans-serif">\n${shapes.join('\n')}\n</svg>\n`;
}

interface TextPlace {
  readonly x: number;
  readonly y: number;
  readonly size: number;
  readonly anchor?: 'start' | 'end';
}

function text(words: string, { x, y, size, anchor = 'start' }: TextPlace): string {
  return `<text x="${x.toFixed(1)}" y="${y}" font-size="${size}" text-anchor="${anchor}" fill="${INK}">${escapeXml(words)}</text>`;
}

function escapeXml(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
