/** How the local search orders its hits: pages that people read come before the reference and pages for maintainers. */
import type { SearchOptions } from 'minisearch';

export const searchOptions: SearchOptions = {
  fuzzy: 0.2,
  prefix: true,
  boost: { title: 4, text: 2, titles: 1 },
  boostDocument: (id: string) => (/\/(?:README|docs\/[^/]+)(?:#|$)/.test(id) ? 1 : 0.1),
};
