import './delivery-charts.css';
import 'uplot/dist/uPlot.min.css';
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import type { AttemptFilter, AttemptKind, AttemptStats } from '../../../src/inspector/api.js';
import { Plain } from '../plain';
import { go, param } from '../url';
import { useAttemptStats } from './deliveries-list';
import { KINDS } from './deliveries-words';

/** The kinds from the bottom of a bar to its top. The color of each is the variable `--<kind>` of the CSS. */
const LAYERS = Object.keys(KINDS) as readonly AttemptKind[];
const nameOf = (kind: AttemptKind) => KINDS[kind].word.toLowerCase();
const HEIGHT = 150;

/** On a small screen they would push the list away. */
const DEFAULT = matchMedia('(width >= 48rem)').matches ? 'open' : 'closed';

const darkScheme = matchMedia('(prefers-color-scheme: dark)');
const isDark = signal(darkScheme.matches);
darkScheme.addEventListener('change', ({ matches }) => {
  isDark.value = matches;
});

/** Outcomes over time and the distribution of the latency, of the attempts that a filter selects. */
export function DeliveryCharts(props: ChartsProps) {
  const isOpen = (param('charts') ?? DEFAULT) === 'open';
  return (
    <details
      class="charts"
      open={isOpen}
      onToggle={({ currentTarget: { open } }) => {
        const wanted = open ? 'open' : 'closed';
        if (open !== isOpen) go({ charts: wanted === DEFAULT ? undefined : wanted }, { replace: true });
      }}
    >
      <summary>Charts</summary>
      {isOpen && <Charts {...props} />}
    </details>
  );
}

interface ChartsProps {
  readonly filter: AttemptFilter;
  /** The counts of all kinds. */
  readonly all: AttemptStats | undefined;
  /** Why they could not be loaded. */
  readonly error: string | undefined;
}

function Charts({ filter, all, error }: ChartsProps) {
  const ofKind = useAttemptStats(filter.kind === undefined ? undefined : filter);
  const { data, error: problem } = filter.kind === undefined ? { data: all, error } : ofKind;
  if (data === undefined) {
    return (
      <p class="faint">
        <Plain text={problem ?? 'Loading …'} />
      </p>
    );
  }
  if (data.total === 0) return <p class="faint">There is no attempt to draw.</p>;
  const counts = LAYERS.map((kind) => [kind, data.kinds[kind].reduce((sum, each) => sum + each, 0)] as const);
  const { boundsMs } = data.latency;
  // The colors are read when a chart is made.
  const scheme = isDark.value ? 'dark' : 'light';
  return (
    <div class="charts-row">
      <figure>
        <figcaption>
          <strong>Outcomes</strong>
          {counts
            .filter(([, count]) => count > 0)
            .map(([kind, count]) => (
              <span key={kind} class={`charts-kind kind-${kind}`}>
                {count.toLocaleString('en')} {nameOf(kind)}
              </span>
            ))}
        </figcaption>
        <Plot key={scheme} options={outcomeOptions} data={stack(data)} />
      </figure>
      <figure>
        <figcaption>
          <strong>Latency</strong> median {percentile(data, 0.5)}, 95 % {percentile(data, 0.95)}
        </figcaption>
        <Plot
          key={`${scheme} ${boundsMs}`}
          options={latencyOptions(boundsMs)}
          data={[data.latency.counts.map((_, index) => index), [...data.latency.counts]]}
        />
      </figure>
    </div>
  );
}

/** The bucket that holds the given part of the attempts, counted from the fastest. */
function percentile({ latency: { boundsMs, counts } }: AttemptStats, part: number): string {
  const total = counts.reduce((sum, each) => sum + each, 0);
  let sum = 0;
  const index = counts.findIndex((count) => {
    sum += count;
    return sum > 0 && sum >= total * part;
  });
  return bucketName(boundsMs, index);
}

function bucketName(boundsMs: readonly number[], index: number): string {
  const bound = boundsMs[index];
  return bound === undefined ? `> ${shortMs(boundsMs.at(-1) ?? 0)}` : `≤ ${shortMs(bound)}`;
}

function shortMs(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`;
}

/** The middle of each bucket of time, and for each kind its count with those below: drawn from the top down. */
function stack({ from, stepMs, kinds }: AttemptStats): uPlot.AlignedData {
  const times = kinds.accepted.map((_, index) => from + (index + 0.5) * stepMs);
  const sums = times.map(() => 0);
  const layers = LAYERS.map((kind) => {
    for (const [index, count] of kinds[kind].entries()) sums[index] = (sums[index] ?? 0) + count;
    return [...sums];
  });
  return [times, ...layers.reverse()];
}

/** How a chart is drawn in a width, with the colors of the scheme. */
type Options = (width: number, color: (variable: string) => string) => uPlot.Options;

const outcomeOptions: Options = (width, color) => ({
  ...commonOptions(width),
  ms: 1,
  scales: { x: { time: true, range: aroundBars }, y: FROM_ZERO },
  axes: [
    {
      ...axis(color),
      ...{ size: X_AXIS_HEIGHT, space: 90, incrs: TIME_STEPS_MS },
      values: (_, times) => times.map((time) => formatTime(time, times)),
    },
    countAxis(color),
  ],
  series: [
    { label: 'Around', value: (_, time) => (time === null ? '' : new Date(time).toLocaleTimeString()) },
    ...LAYERS.toReversed().map(
      (kind): uPlot.Series => ({
        label: nameOf(kind),
        ...bars(color(`--${kind}`)),
        value: ({ data }, sum, layer, index) =>
          index === null ? '' : `${sum - Number(data[layer + 1]?.[index] ?? 0)}`,
      }),
    ),
  ],
});

const latencyOptions =
  (boundsMs: readonly number[]): Options =>
  (width, color) => ({
    ...commonOptions(width),
    scales: { x: { time: false, range: [-0.5, boundsMs.length + 0.5] }, y: FROM_ZERO },
    axes: [
      {
        ...axis(color),
        ...{ size: X_AXIS_HEIGHT, space: 64, incrs: [1, 2, 4] },
        values: (_, indexes) => indexes.map((index) => bucketName(boundsMs, index)),
      },
      countAxis(color),
    ],
    series: [
      { label: 'Took', value: (_, index) => (index === null ? '' : bucketName(boundsMs, index)) },
      {
        label: 'attempts',
        ...bars(color('--accent')),
        value: (_, count) => (count === null ? '' : `${count}`),
      },
    ],
  });

const X_AXIS_HEIGHT = 30;
/** Steps of the labels of time: none is shorter than what a label shows. */
const TIME_STEPS_MS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400]
  .map((seconds) => seconds * 1_000)
  .concat([2, 5, 10, 30, 100].map((days) => days * 86_400_000));

const FROM_ZERO: uPlot.Scale = { range: (_, __, max) => [0, Math.max(max, 1)] };

const commonOptions = (width: number) => ({
  width,
  height: HEIGHT,
  // Half of the last label is beyond the end of its axis.
  padding: [null, 32, null, null] as uPlot.Padding,
  // Dragging would select a span, which the live data moves away.
  cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
});

const bars = (fill: string) => ({
  fill,
  width: 0,
  points: { show: false },
  ...(uPlot.paths.bars && { paths: uPlot.paths.bars({ size: [0.85, 40] }) }),
});

const axis = (color: (variable: string) => string) => ({
  stroke: color('--faint'),
  grid: { stroke: color('--line'), width: 1 },
  ticks: { stroke: color('--line'), width: 1 },
});

const countAxis = (color: (variable: string) => string): uPlot.Axis => ({
  ...axis(color),
  size: 46,
  space: 30,
  incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000],
});

/** Half a bucket on each side, so that the outer bars are whole. */
function aroundBars({ data: [times] }: uPlot, min: number, max: number): uPlot.Range.MinMax {
  const half = ((times[1] ?? 0) - (times[0] ?? 0)) / 2 || 500;
  return [min - half, max + half];
}

function formatTime(time: number, times: readonly number[]): string {
  const span = (times.at(-1) ?? 0) - (times[0] ?? 0);
  const date = { month: 'short', day: 'numeric' } as const;
  const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;
  const isShort = span < 600_000;
  return new Intl.DateTimeFormat(undefined, {
    ...(span > 86_400_000 && date),
    ...clock,
    ...(isShort && { second: '2-digit' }),
  }).format(time);
}

/** A chart as wide as its place. Its caption says the same to those who do not see it. */
function Plot({ options, data }: { readonly options: Options; readonly data: uPlot.AlignedData }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const colors = (variable: string) => resolveColor(element, variable);
    const made = new uPlot(options(element.clientWidth, colors), data, element);
    plot.current = made;
    const resizes = new ResizeObserver(() => {
      const width = element.clientWidth;
      if (width > 0 && width !== made.width) made.setSize({ width, height: HEIGHT });
    });
    resizes.observe(element);
    return () => {
      resizes.disconnect();
      made.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [data]);
  return <div class="plot" ref={place} aria-hidden="true" />;
}

/** A canvas does not know variables, and their values can depend on the scheme. */
function resolveColor(element: HTMLElement, variable: string): string {
  element.style.color = `var(${variable})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}
