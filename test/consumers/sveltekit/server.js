/** The built app on a server of our own, as SvelteKit documents it. */
import { createServer } from 'node:http';
import { handler } from './build/handler.js';

const server = createServer(handler);
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
