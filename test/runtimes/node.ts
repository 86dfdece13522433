/** Node: node:http and the adapter for it, and the inbox contract beside the checks. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { memoryInbox } from 'stablehooks/inboxes/memory';
import { toNodeHandler } from 'stablehooks/node';
import { createContractReceiver, inboxContract } from 'stablehooks/testing';
import { failuresOf } from './answer.js';
import { coreChecks } from './core-checks.js';

const memoryChecks = inboxContract.map(({ name, run }) => ({
  name: `memory inbox, ${name}`,
  async run() {
    const inbox = memoryInbox();
    await run({ inbox, second: inbox });
  },
}));

const hooks = toNodeHandler(createContractReceiver());

const server = createServer(async (request, response) => {
  if (request.url !== '/checks') return hooks(request, response);
  response.end(JSON.stringify(await failuresOf([...coreChecks, ...memoryChecks])));
});

server.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
