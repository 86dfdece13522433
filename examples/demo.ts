/** `npm run demo`: exits with 0 only if everything got what it should. */
import { showDeliveries } from './demo-deliveries.js';

process.exitCode = (await showDeliveries()) ? 0 : 1;
