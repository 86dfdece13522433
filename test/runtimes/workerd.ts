/** The worker for workerd without Node compatibility. It is bundled into one file. */
import { answer } from './answer.js';

export default { fetch: answer };
