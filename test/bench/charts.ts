/** Draws the charts of docs/images from the tables that `npm run bench` writes: the same tables, the same bytes. */
import * as Plot from '@observablehq/plot';
import { parseHTML } from 'linkedom';
import { numberIn, tableBelow } from './tables.js';

/** A picture, and the words for those who do not see it. */
export interface Chart {
  readonly name: string;
  /** What the picture shows, with the figures. It is the alternative text of the picture in the pages. */
  readonly description: string;
  readonly svg: string;
}

/** A length on the axis: how often a figure is that of the reference, which is the line at 1×. */
interface Bar {
  readonly label: string;
  readonly ratio: number;
  /** What stands at the end of the bar. */
  readonly words: string;
  readonly ours: boolean;
  /** The column that it stands in; charts without columns have none. */
  readonly column?: string;
}

interface Drawing {
  readonly name: string;
  readonly title: string;
  /** What the ratio is of, and which direction is better. */
  readonly axis: string;
  readonly bars: readonly Bar[];
  /** The bars that the description names, if not all. */
  readonly described?: readonly Bar[];
}

/** The charts of a page of results. */
export function drawCharts(results: string): readonly Chart[] {
  const machine = results.split('\n').find((line) => line.startsWith('Node ')) ?? '';
  return [verify(results), adapters(results), catchUp(results), claims(results)].map((drawing) => ({
    name: drawing.name,
    description: describe(drawing),
    svg: draw(drawing, machine),
  }));
}

function verify(results: string): Drawing {
  const [[, ...sizes] = [], bare = [], ...rows] = tableBelow(results, 'Verify and parse one delivery');
  // A part of `receive` is no way to verify a delivery.
  const ways = rows.filter(([name = '']) => !name.startsWith('of receive'));
  const bars = ways.flatMap(([label = '', ...cells]) =>
    cells.map((cell, index) => {
      const ratio = numberIn(/\((.+)×\)/.exec(cell)?.[1]);
      const words = `${ratio.toFixed(2)}×`;
      return { label, ratio, words, ours: label.startsWith('stablehooks'), column: sizes[index] ?? '' };
    }),
  );
  return {
    name: 'verify',
    title: 'Verify and parse one delivery',
    axis: `time, as a multiple of ${bare[0] ?? ''}; shorter is better`,
    bars,
    described: bars.filter(({ column }) => column === sizes[0]),
  };
}

function adapters(results: string): Drawing {
  const [, ...rows] = tableBelow(results, 'One server');
  const bars = rows.flatMap(([name = '', time, ratio]) => {
    const [, framework, server] = /^(.+): \S+ (.+)$/.exec(name) ?? [];
    if (server === 'by hand') return [];
    const label = `${framework}: ${server}`;
    return [bar(label, { ratio: numberIn(ratio), figure: `${time} µs`, ours: server === 'stablehooks' })];
  });
  return {
    name: 'adapters',
    title: 'One server under load, 300 B',
    axis: 'requests per second of processor time, as a multiple of a server by hand; longer is better',
    bars,
  };
}

function catchUp(results: string): Drawing {
  const [, ...rows] = tableBelow(results, 'Catch-up');
  const taken = rows
    .filter(([way]) => way !== 'the pages alone')
    .map(([way, events, rate = '']) => ({
      label: `${events} events: ${way}`,
      rate,
      ours: way === 'stablehooks',
    }));
  const byHand = numberIn(taken[0]?.rate);
  return {
    name: 'catch-up',
    title: 'A backlog from the list, through the handlers, into SQLite',
    axis: 'events per second, as a multiple of the first bar; longer is better',
    bars: taken.map(({ label, rate, ours }) =>
      bar(label, { ratio: numberIn(rate) / byHand, figure: `${rate} events/s`, ours }),
    ),
  };
}

function claims(results: string): Drawing {
  const [, ...rows] = tableBelow(results, 'Claims in Postgres');
  return {
    name: 'claims',
    title: 'Claims in Postgres',
    axis: 'claims per second, as a multiple of bare INSERT … ON CONFLICT of the same rows; longer is better',
    bars: rows.map(([connections, rate, , ratio]) =>
      bar(`${connections} ${connections === '1' ? 'connection' : 'connections'}`, {
        ratio: numberIn(ratio),
        figure: `${rate} claims/s`,
        ours: true,
      }),
    ),
  };
}

function bar(
  label: string,
  { ratio, figure, ours }: { readonly ratio: number; readonly figure: string; readonly ours: boolean },
): Bar {
  return { label, ratio, words: `${ratio.toFixed(2)}× (${figure})`, ours };
}

function describe({ title, axis, bars, described = bars }: Drawing): string {
  const column = described[0]?.column;
  const figures = described.map(({ label, words }) => `${label} ${words}`).join('; ');
  return `${title}: ${axis}. ${column === undefined ? '' : `At ${column}: `}${figures}.`;
}

const WIDTH = 860;
const ROW = 22;
const TOP = 44;
const COLUMN_HEAD = 18;
const BOTTOM = 72;
const LEFT = 16;

/** A picture has a background of its own, so that it is readable on any page. */
const STYLE = `
.chart { background: #ffffff; color: #1f2328; fill: currentColor; font: 12px system-ui, sans-serif }
.chart .title { font-size: 15px; font-weight: 600 }
.chart .note { fill: #59636e }
.chart .grid { stroke: #d1d9e0 }
.chart .ours { fill: #1a7f64 }
.chart .others { fill: #9aa5b1 }
.chart .words { stroke: #ffffff; stroke-width: 4px; paint-order: stroke }
@media (prefers-color-scheme: dark) {
  .chart { background: #0d1117; color: #e6edf3 }
  .chart .note { fill: #9198a1 }
  .chart .grid { stroke: #30363d }
  .chart .ours { fill: #2fa37f }
  .chart .others { fill: #6e7781 }
  .chart .words { stroke: #0d1117 }
}
`;

function draw(drawing: Drawing, machine: string): string {
  const { document } = parseHTML('<html></html>');
  const svg = plot(drawing, document);
  const add = (name: string, attributes: Readonly<Record<string, string | number>>, text: string) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    element.textContent = text;
    svg.append(element);
    return element;
  };
  const { name, title, axis } = drawing;
  svg.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-labelledby', `${name}-title ${name}-description`);
  svg.querySelector('style')?.replaceWith(add('style', {}, STYLE));
  // A reader that knows them looks for these two first.
  svg.prepend(
    add('title', { id: `${name}-title` }, title),
    add('desc', { id: `${name}-description` }, describe(drawing)),
  );
  const height = Number(svg.getAttribute('height'));
  const start = { x: LEFT, 'text-anchor': 'start' };
  add('text', { ...start, y: 27, class: 'title' }, title);
  add('text', { ...start, y: height - 30, class: 'note' }, `Bars: ${axis}.`);
  add('text', { ...start, y: height - 12, class: 'note' }, `Dashed line: 1×. ${machine}`);
  return `${svg.outerHTML}\n`;
}

/** The bars on their axis, each with its words, and the line of the reference. */
function plot({ bars }: Drawing, document: Document) {
  const labels = [...new Set(bars.map(({ label }) => label))];
  const columns = [...new Set(bars.flatMap(({ column }) => column ?? []))];
  const hasColumns = columns.length > 0;
  // Widths of text are estimates, since fonts differ.
  const marginLeft = LEFT + 14 + 6.4 * Math.max(...labels.map((label) => label.length));
  const columnWidth = (WIDTH - marginLeft - LEFT) / Math.max(columns.length, 1);
  const wordsWidth = 20 + 6.4 * Math.max(...bars.map(({ words }) => words.length));
  const longest = Math.max(1, ...bars.map(({ ratio }) => ratio));
  const most = (longest * columnWidth) / (columnWidth - wordsWidth);
  const step = hasColumns ? 1 : 0.5;
  const ticks = Array.from({ length: Math.floor(longest / step) + 1 }, (_, index) => index * step);

  const place = { y: 'label', x: 'ratio', ...(hasColumns ? { fx: 'column' } : {}) };
  const marginTop = TOP + (hasColumns ? COLUMN_HEAD : 0);
  const height = marginTop + labels.length * ROW + BOTTOM;
  return Plot.plot({
    document,
    className: 'chart',
    width: WIDTH,
    height,
    ...{ marginTop, marginRight: LEFT, marginBottom: BOTTOM, marginLeft },
    x: { domain: [0, most], label: null },
    y: { domain: labels, label: null, padding: 0.25 },
    ...(hasColumns ? { fx: { domain: columns, label: null, padding: 0.05 } } : {}),
    marks: [
      Plot.ruleX(ticks, { className: 'grid', stroke: null }),
      Plot.axisX(ticks, { tickFormat: (ratio: number) => `${ratio}×`, tickSize: 0, fontSize: 12 }),
      Plot.axisY({ tickSize: 0, fontSize: 12 }),
      ...(hasColumns ? [Plot.axisFx({ anchor: 'top', fontSize: 12, fontWeight: 600 })] : []),
      ...[true, false].map((ours) =>
        Plot.barX(
          bars.filter((bar) => bar.ours === ours),
          { ...place, className: ours ? 'ours' : 'others', fill: null },
        ),
      ),
      Plot.ruleX([1], { strokeDasharray: '3 3' }),
      Plot.text(bars, { ...place, className: 'words', text: 'words', textAnchor: 'start', dx: 5 }),
    ],
  });
}
