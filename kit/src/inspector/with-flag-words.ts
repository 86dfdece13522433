import { toFlagWords } from '../io/flag-words.js';
import type { InspectorSource } from './source.js';

/** The source of an inspector, with messages of the poller reworded by {@link toFlagWords}. */
export function withFlagWords(source: InspectorSource, interval?: string): InspectorSource {
  const { inbox } = source;
  return inbox === undefined
    ? source
    : { ...source, inbox: { ...inbox, toAdvice: (message) => toFlagWords(message, interval) } };
}
