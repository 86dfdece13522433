import { toFlagWords } from '../io/flag-words.js';
import type { InspectorSource } from './source.js';

/** The source of an inspector, whose page words the messages of the poller as {@link toFlagWords} does. */
export function withFlagWords(source: InspectorSource, interval?: string): InspectorSource {
  const { inbox } = source;
  return inbox === undefined
    ? source
    : { ...source, inbox: { ...inbox, toAdvice: (message) => toFlagWords(message, interval) } };
}
