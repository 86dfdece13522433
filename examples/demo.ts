/** `npm run demo`: what each delivery gets, and that nothing is missed. Exits with 0 only if all is as it should be. */
import { showDeliveries } from './demo-deliveries.js';
import { neverMiss } from './never-miss.js';

console.log('1. What each delivery gets\n');
const answered = await showDeliveries();
console.log('\n2. Nothing missed\n');
const caughtUp = await neverMiss();
process.exitCode = answered && caughtUp ? 0 : 1;
