/** CommonJS: `require` of every entry that a server needs. */
const { createServer } = require('node:http');
const { createReceiver } = require('stablehooks');
const { toNodeHandler } = require('stablehooks/node');
const { createContractReceiver } = require('./contract-receiver.js');

if (typeof createReceiver !== 'function') throw new Error('require did not give createReceiver.');

const server = createServer(toNodeHandler(createContractReceiver()));
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
