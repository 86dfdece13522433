/** CommonJS: `require` of every entry that a server needs. */
const { createServer } = require('node:http');
const { createReceiver } = require('stablehooks');
const { toNodeHandler } = require('stablehooks/node');

if (typeof createReceiver !== 'function') throw new Error('require did not give createReceiver.');

// The kit has ES modules only.
import('stablehooks-kit/conformance').then(({ createContractReceiver }) => {
  const server = createServer(toNodeHandler(createContractReceiver()));
  server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
});
