/** `npm run demo`: shows the answer to each delivery, and how missed events are found. Exits with 0 only if all of it succeeds. */
import { showDeliveries } from './demo-deliveries.js';
import { neverMiss } from './never-miss.js';

console.log('1. What each delivery is answered\n');
const answered = await showDeliveries();
console.log('\n2. Catch-up: no event is missed\n');
const caughtUp = await neverMiss();
process.exitCode = answered && caughtUp ? 0 : 1;
