/** `npm run demo`: shows the response to each delivery, and how missed events are found. Exits with 0 only if everything succeeds. */
import { showDeliveries } from './demo-deliveries.js';
import { neverMiss } from './never-miss.js';

console.log('1. The response to each delivery\n');
const answered = await showDeliveries();
console.log('\n2. Catch-up: no event is missed\n');
const caughtUp = await neverMiss();
process.exitCode = answered && caughtUp ? 0 : 1;
