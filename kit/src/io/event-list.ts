import { countOf } from './output.js';

/** The service's default limit. It states no cap of its own, and one below its default is not possible. */
const LEAST_CAP = 50;

/**
 * Why an answer of the list may have left out events; `undefined` if no limit can have cut it, because it is smaller
 * than the limit asked for and smaller than any cap of the service.
 *
 * @param size - how many elements the answer has.
 * @param what - what messages call one element.
 */
export function describeCut(size: number, limit: number, what = 'event'): string | undefined {
  if (size < Math.min(limit, LEAST_CAP)) return undefined;
  const listed = `The service listed ${countOf(size, what)}`;
  return size >= limit
    ? `${listed}, which is the limit. There may be more: raise --limit.`
    : `${listed}. There may be more: it can cut answers of ${LEAST_CAP} or more at a limit of its own.`;
}
