import { setImmediate } from 'node:timers/promises';
import { acknowledgeGap, describeGap, type Gap, listGaps } from 'stablehooks/catch-up';
import { readCoverage, renderCoverage } from '../coverage-picture.js';
import type { ActionInputs, CoverageReport } from './api.js';
import { describeLoss } from './inbox-source.js';
import type { InboxPart, LastReport } from './source.js';

/** The coverage of an inbox, as the page shows it. */
export interface Coverage {
  report(): Promise<CoverageReport>;
  /** Begins to draw the picture again in the background, unless it is being drawn. */
  draw(): void;
  /** The last picture as SVG; `undefined` before the first one. */
  picture(): string | undefined;
  /** Resolves to `false` when the gap is not open, or while another process polls. */
  acknowledge(input: ActionInputs['acknowledge-gap']): Promise<boolean>;
  /** Stops drawing. */
  close(): void;
}

export function createCoverage({
  operations,
  lastReport,
  toAdvice = (message) => message,
}: InboxPart): Coverage {
  let picture: CoverageReport['picture'] = { state: 'none' };
  let drawn: string | undefined;
  let isClosed = false;

  /** Reads all events and draws them. After each page of events, other work of the process can run. */
  async function draw(): Promise<void> {
    picture = { state: 'drawing', read: 0, total: 0 };
    const now = Date.now();
    try {
      const total = (await operations.count()).reduce((sum, { count }) => sum + count, 0);
      const data = await readCoverage(operations, {
        now,
        late: lastReport?.()?.report.ids.late,
        async onRead(read) {
          if (isClosed) throw new Error('The inspector is closed.');
          // Events that arrive meanwhile are read as well.
          picture = { state: 'drawing', read, total: Math.max(read, total) };
          await setImmediate();
        },
      });
      drawn = renderCoverage(data);
      picture = { state: 'ready', at: now };
    } catch (error) {
      picture = { state: 'failed', why: describeLoss(error) };
    }
  }

  return {
    async report() {
      const [{ since, watermark }, gaps] = [await operations.pollState(), await listGaps(operations)];
      return {
        since,
        watermark,
        gaps: gaps.map((gap) => ({
          ...gap,
          id: toId(gap),
          text: gap.state === 'open' ? toAdvice(describeGap(gap)) : describeGap(gap),
        })),
        lastPoll: toLastPoll(lastReport?.(), toAdvice),
        picture,
      };
    },
    draw() {
      if (picture.state !== 'drawing') void draw();
    },
    picture: () => drawn,
    async acknowledge({ id, by, reason }) {
      const gap = (await listGaps(operations)).find((each) => each.state === 'open' && toId(each) === id);
      return gap !== undefined && (await acknowledgeGap(operations, gap, { by, reason })) !== null;
    },
    close() {
      isClosed = true;
    },
  };
}

function toLastPoll(
  last: LastReport | undefined,
  toAdvice: (message: string) => string,
): CoverageReport['lastPoll'] {
  if (last === undefined) return null;
  const { at, report } = last;
  const problems = report.problems.map(({ id, message }) =>
    id === undefined ? toAdvice(message) : `${id}: ${toAdvice(message)}`,
  );
  return { at, diagnosis: toAdvice(report.diagnosis), problems };
}

/** A gap of which a part was acknowledged leaves another gap with the same opening. */
function toId({ openedAt, from, until }: Gap): string {
  return [openedAt, from, until].join('|');
}
