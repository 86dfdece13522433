/** The ES modules and the CommonJS of the package in one process: what one copy makes, the other uses. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import {
  createReceiver,
  forwardOnly,
  memoryInbox,
  PermanentError,
  parseEvent,
  StablehooksError,
} from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { ConnectionError, createClient } from 'stablehooks/client';
import { createContractReceiver } from 'stablehooks/conformance';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent } from 'stablehooks/testing';

const require = createRequire(import.meta.url);
const required = {
  ...require('stablehooks'),
  ...require('stablehooks/catch-up'),
  ...require('stablehooks/client'),
  ...require('stablehooks/conformance'),
  ...require('stablehooks/node'),
  ...require('stablehooks/testing'),
};
const imported = {
  ...{ createReceiver, forwardOnly, memoryInbox, PermanentError, parseEvent, StablehooksError },
  ...{ createPoller, ConnectionError, createClient, createContractReceiver, toNodeHandler, exampleEvent },
};

for (const [one, other] of [
  [imported, required],
  [required, imported],
]) {
  for (const name of Object.keys(imported)) assert.notEqual(one[name], other[name], `${name} has one copy.`);
  await handlersThrow(one, other);
  await pollersFail(one, other);
}

/** A receiver of one copy, with an inbox and the errors of the other. */
async function handlersThrow(one, other) {
  const receiver = one.createReceiver({
    secret: 'whsec_copies',
    inbox: other.memoryInbox(),
    handlers: {
      'transfer.settled': () => undefined,
      'transfer.failed': () => {
        throw new other.PermanentError('closed');
      },
    },
    logger: { warn() {}, error() {} },
  });
  const settled = other.exampleEvent('transfer.settled');
  assert.equal((await receiver.handle(settled, 'push')).kind, 'handled');
  assert.equal((await receiver.handle(settled, 'push')).kind, 'duplicate');
  const { kind, error } = await receiver.handle(other.exampleEvent('transfer.failed'), 'push');
  assert.equal(kind, 'dead');
  assert.ok(error instanceof one.PermanentError && error instanceof other.PermanentError);
  assert.ok(error instanceof one.StablehooksError && !(error instanceof other.ConnectionError));
}

/** A poller of one copy, with a client and a receiver of the other: the report has the client's code. */
async function pollersFail(one, other) {
  const receiver = other.createReceiver({ secret: 'whsec_copies', handlers: {}, onOutcome: () => undefined });
  const client = other.createClient({ baseUrl: 'http://127.0.0.1:9', token: 'token', retries: 0 });
  await assert.rejects(
    client.events.list(),
    (error) => error instanceof one.ConnectionError && error instanceof one.StablehooksError,
  );
  const poller = one.createPoller({
    client,
    receiver,
    since: new Date(0),
    logger: { warn() {}, error() {} },
  });
  const report = await poller.pollOnce();
  assert.deepEqual(
    report.problems.map(({ code }) => code),
    ['ERR_API_CONNECTION'],
  );
}

const routes = {
  '/imported-adapter': toNodeHandler(required.createContractReceiver()),
  '/required-adapter': required.toNodeHandler(createContractReceiver()),
};
const server = createServer((request, response) => {
  const [path] = request.url.split('?');
  return routes[path](request, response);
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
