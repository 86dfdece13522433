import { measureCatchUp } from './catch-up.js';

for (const r of await measureCatchUp([1_000_000]))
  console.log(r.way, Math.round(r.peakBytes / 2 ** 20), 'MiB', Math.round(r.ms / 1000), 's');
