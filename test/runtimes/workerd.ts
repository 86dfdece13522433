/** The worker for workerd without Node compatibility. It is bundled into one file. */
import { answer } from './answer.js';

// workerd passes more than the request.
export default { fetch: (request: Request) => answer(request) };
