import { acknowledgeGap, describeGap, type Gap, listGaps } from 'stablehooks/catch-up';
import { readCoverage, renderCoverage } from '../coverage-picture.js';
import type { ActionInputs, CoverageReport, GapRow } from './api.js';
import type { InboxPart } from './source.js';

/** What the page shows of the coverage of an inbox. */
export interface Coverage {
  /** With `draw`, the picture is drawn anew in the background. */
  report(options: { readonly draw: boolean }): Promise<CoverageReport>;
  /** The last picture, as SVG; `undefined` before the first one. */
  picture(): string | undefined;
  /** Resolves to `false` when there is no such open gap, or while another process polls. */
  acknowledge(input: ActionInputs['acknowledge-gap']): Promise<boolean>;
}

export function createCoverage({ operations, lastReport }: InboxPart): Coverage {
  let picture: CoverageReport['picture'] = { state: 'none' };
  let drawn: string | undefined;

  async function draw(): Promise<void> {
    picture = { state: 'drawing', read: 0, total: 0 };
    const now = Date.now();
    try {
      drawn = renderCoverage(await readCoverage(operations, { now, late: lastReport?.()?.ids.late }));
      picture = { state: 'ready', at: now };
    } catch {
      picture = { state: 'failed', why: 'The inbox could not be read.' };
    }
  }

  return {
    async report(options) {
      if (picture.state !== 'drawing' && (options.draw || picture.state === 'none')) void draw();
      const [{ since, watermark }, gaps] = await Promise.all([operations.pollState(), listGaps(operations)]);
      const diagnosis = lastReport?.()?.diagnosis ?? null;
      return { since, watermark, gaps: gaps.map(toRow), diagnosis, picture };
    },
    picture: () => drawn,
    async acknowledge({ id, by, reason }) {
      const gap = (await listGaps(operations)).find((each) => each.state === 'open' && toId(each) === id);
      return gap !== undefined && (await acknowledgeGap(operations, gap, { by, reason })) !== null;
    },
  };
}

function toRow(gap: Gap): GapRow {
  return { ...gap, id: toId(gap), text: describeGap(gap) };
}

function toId({ openedAt, from, until }: Gap): string {
  return [openedAt, from, until].join('|');
}
