/** `npm run bench:page`: writes the charts and the pages from the results of the last full run of `npm run bench`. */
import { readFileSync } from 'node:fs';
import { writePagesWith } from './pages.js';

writePagesWith(readFileSync(new URL('results/results.md', import.meta.url), 'utf8'));
