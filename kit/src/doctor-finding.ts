/** Findings: what a check saw, whether that is right, and the fix where it is not. */
import { type Answer, describeAnswer, isDelivered, statusOf } from './delivery.js';

/**
 * What a check found.
 *
 * - `pass`: as it should be.
 * - `fail`: wrong; `fix` says what to change.
 * - `unproven`: nothing in the replies tells; `fix` says how to make it visible.
 * - `skipped`: it needs a genuine delivery to be taken, and none is.
 */
export interface Finding {
  readonly verdict: 'pass' | 'fail' | 'unproven' | 'skipped';
  readonly got: string;
  readonly fix?: string;
}

const GONE =
  'Nothing listens any more: a delivery before this one seems to have ended the process. See its log.';

/** What is wrong when nothing was answered at all, whatever was sent. */
function goneCure(answer: Answer): string | undefined {
  return answer.kind === 'unreachable' && answer.reason === 'ECONNREFUSED' ? GONE : undefined;
}

/** A genuine delivery has to be answered 2xx. */
export function wantDelivered(answer: Answer, { fix }: { readonly fix: string }): Finding {
  const got = describeAnswer(answer);
  return isDelivered(answer)
    ? { verdict: 'pass', got }
    : { verdict: 'fail', got, fix: goneCure(answer) ?? fix };
}

/** What must never be taken has to be answered 4xx: neither 2xx (taken) nor 5xx (wanted again), nor nothing. */
export function wantRefused(
  answer: Answer,
  { taken, broke }: { readonly taken: string; readonly broke: string },
): Finding {
  const got = describeAnswer(answer);
  if (isDelivered(answer)) return { verdict: 'fail', got, fix: taken };
  const refused = statusOf(answer) >= 400 && statusOf(answer) < 500;
  return refused ? { verdict: 'pass', got } : { verdict: 'fail', got, fix: goneCure(answer) ?? broke };
}
