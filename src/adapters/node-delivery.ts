/** One delivery over Node's own request and response: what Express, the Pages Router and plain Node share. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Receiver } from '../receiver/receiver.js';
import { toWebhookResponse, type WebhookResponse } from '../receiver/reply.js';
import type { WebhookRequest } from '../receiver/request.js';
import { type NodeBodyRules, type NodeRequest, readNodeBody } from './node-body.js';

/** Node's request as the receiver takes it. */
export function toWebhookRequest(
  request: IncomingMessage,
  rules: Omit<NodeBodyRules, 'maxBodyBytes'>,
): WebhookRequest {
  return {
    method: request.method ?? '',
    header(name) {
      const value = request.headers[name.toLowerCase()];
      return Array.isArray(value) ? value.join(', ') : value;
    },
    body: ({ maxBodyBytes }) => readNodeBody(request, { ...rules, maxBodyBytes }),
  };
}

/** Makes the handler of a framework that hands out Node's own objects. Its promise never rejects. */
export function createNodeHandler(
  receiver: Receiver,
  { fix }: { readonly fix: string },
): (request: NodeRequest, response: ServerResponse) => Promise<void> {
  return async (request, response) => {
    const webhook = toWebhookRequest(request, { parsed: [request.rawBody, request.body], fix });
    writeReply(response, toWebhookResponse(await receiver.receive(webhook)));
  };
}

/** Writes nothing when the sender has hung up, or when something else (a timeout) has replied. */
function writeReply(response: ServerResponse, { status, headers, body }: WebhookResponse): void {
  if (response.destroyed || response.headersSent) return;
  // With its length the reply is one write; in chunks it would be five, which takes a server a fifth of its time.
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body);
}
