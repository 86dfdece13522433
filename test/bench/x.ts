import { measureExactlyOnce } from './exactly-once.js';
console.log(await measureExactlyOnce({ rounds: 5, events: 1500 }));
