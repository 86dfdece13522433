/** node:http with its adapter. Node runs the inbox contract as well. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from 'stablehooks/node';
import { createContractReceiver } from '../contracts/adapter-receiver.js';
import { runChecks } from './answer.js';
import { coreChecks } from './core-checks.js';
import { inboxChecks } from './inbox-checks.js';

const hooks = toNodeHandler(createContractReceiver());

const server = createServer(async (request, response) => {
  if (request.url !== '/checks') return hooks(request, response);
  response.end(JSON.stringify(await runChecks([...coreChecks, ...inboxChecks])));
});

server.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
