/** A process of its own: a cluster whose workers have a memory inbox each. It sends its port when all listen. */
import cluster from 'node:cluster';
import { createServer } from 'node:http';
import { createListener } from './stablehooks-receiver.js';

const WORKERS = 3;

// The parent is the test, or the primary process of the cluster.
process.on('disconnect', () => process.exit());
if (cluster.isPrimary) {
  let listening = 0;
  cluster.on('listening', (_, { port }) => {
    listening += 1;
    if (listening === WORKERS) process.send?.(port);
  });
  for (let index = 0; index < WORKERS; index++) cluster.fork();
} else {
  createServer(createListener({ secret: process.env['SECRET'] ?? '' })).listen(0, '127.0.0.1');
}
