/** The steps of an event that began but recorded no result. They may have taken effect, so nothing requeues the event. */
import type { InboxOperations } from 'stablehooks';
import { toPlain } from './output.js';

export async function unknownSteps(inbox: InboxOperations, id: string): Promise<readonly string[]> {
  return (await inbox.steps(id)).flatMap(({ name, result }) => (result === null ? [name] : []));
}

export function describeUnknownStep(step: string): string {
  const name = toPlain(step);
  return `its step ${name} began but recorded no result. Check whether the effect of the step happened, then pass --step ${name}=done or --step ${name}=again to \`stablehooks inbox requeue\`.`;
}
