import { EVENT_TYPES } from 'stablehooks';
import { acknowledgeGap, describeGap, type Gap, listGaps, readPollState } from 'stablehooks/catch-up';
import { toShellWord } from '../shell-word.js';
import type { ActionInputs, CoverageReport } from './api.js';
import { DEFAULT_FLAG, type InboxPart, type LastReport } from './source.js';

export async function readCoverage({
  operations,
  lastReport,
  flag = DEFAULT_FLAG,
}: InboxPart): Promise<CoverageReport> {
  const [state, gaps] = [await readPollState(operations), await listGaps(operations)];
  return {
    since: state.since,
    watermark: state.watermark,
    gaps: gaps.map((gap) => ({
      ...gap,
      id: toId(gap),
      text: describeGap(gap),
      command: `stablehooks reconcile --ledger ledger.csv --inbox ${toShellWord(flag)} --since ${gap.from} --until ${gap.until}`,
    })),
    types: [...EVENT_TYPES],
    lastPoll: toLastPoll(lastReport?.()),
  };
}

/** Resolves to `false` if the gap is not open or another process is polling. */
export async function acknowledge(
  { operations }: InboxPart,
  { id, until, by, reason }: ActionInputs['acknowledge-gap'],
): Promise<boolean> {
  const gap = (await listGaps(operations)).find((each) => each.state === 'open' && toId(each) === id);
  return gap !== undefined && (await acknowledgeGap(operations, { ...gap, until }, { by, reason })) !== null;
}

function toLastPoll(last: LastReport | undefined): CoverageReport['lastPoll'] {
  if (last === undefined) return null;
  const { at, report } = last;
  const problems = report.problems.map(({ id, message }) =>
    id === undefined ? message : `${id}: ${message}`,
  );
  return { at, diagnosis: report.diagnosis, problems };
}

/** `openedAt` alone is not unique, because acknowledging a part splits the gap, and polls can change the end. */
function toId({ openedAt, from }: Gap): string {
  return [openedAt, from].join('|');
}
