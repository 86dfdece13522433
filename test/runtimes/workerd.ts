/** workerd, without its Node compatibility: the bundled worker. */
import { answer } from './answer.js';

export default { fetch: answer };
