import { isUtf8 } from 'node:buffer';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { LambdaEvent } from 'stablehooks/lambda';

/** The shape of a gateway's events, and whether all bodies are base64 or only those that are not UTF-8. */
export interface Gateway {
  readonly shape: keyof typeof SHAPES;
  readonly alwaysBase64: boolean;
}

interface LambdaReply {
  readonly statusCode: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly multiValueHeaders?: Readonly<Record<string, string[]>> | undefined;
  readonly body: string;
}

/** The method, path, query and headers in the events of each gateway, as in its documentation. */
export const SHAPES = {
  'API Gateway, payload format 1.0': ({ method = '', headersDistinct, url }) => ({
    version: '1.0',
    httpMethod: method,
    ...decodedQuery(url),
    path: pathOf(url),
    requestContext: { path: pathOf(url) },
    headers: mapValues(headersDistinct, (values) => values.at(-1)),
    multiValueHeaders: headersDistinct,
  }),
  'API Gateway, payload format 2.0': ({ method = '', headersDistinct, url }) => ({
    version: '2.0',
    rawPath: pathOf(url),
    rawQueryString: queryOf(url),
    headers: mapValues(headersDistinct, (values) => values.join(',')),
    requestContext: { http: { method } },
  }),
  'a function URL': ({ method = '', headersDistinct, url }) => ({
    version: '2.0',
    rawPath: pathOf(url),
    rawQueryString: queryOf(url),
    headers: mapValues(headersDistinct, (values) => values.join(',')),
    requestContext: { apiId: 'url-id', http: { method, path: '/hooks' } },
  }),
  'a load balancer': ({ method = '', headersDistinct, url }) => ({
    requestContext: { elb: {} },
    httpMethod: method,
    path: pathOf(url),
    queryStringParameters: mapValues(encodedQuery(url), (values) => values.at(-1)),
    headers: mapValues(headersDistinct, (values) => values.at(-1)),
  }),
  'a load balancer with multi-value headers': ({ method = '', headersDistinct, url }) => ({
    requestContext: { elb: {} },
    httpMethod: method,
    path: pathOf(url),
    multiValueQueryStringParameters: encodedQuery(url),
    multiValueHeaders: headersDistinct,
  }),
} as const satisfies Record<string, (request: IncomingMessage) => object>;

/**
 * A gateway on the loopback: turns requests into Lambda events, and replies of the handler into responses.
 * Like every gateway, it reads the complete body before it calls the handler.
 */
export function createLambdaBridge(
  handler: (event: LambdaEvent) => Promise<LambdaReply>,
  { shape, alwaysBase64 }: Gateway,
): Server {
  return createServer(async (request, response) => {
    // A request that is cut off half way never reaches the function.
    const body = await buffer(request).catch(() => undefined);
    if (body === undefined) return;
    const isBase64Encoded = alwaysBase64 || !isUtf8(body);
    const text = body.toString(isBase64Encoded ? 'base64' : 'utf8');
    const event = { ...SHAPES[shape](request), body: text === '' ? null : text, isBase64Encoded };
    const { statusCode, headers, multiValueHeaders, body: reply } = await handler(event);
    response.writeHead(statusCode, { ...headers, ...multiValueHeaders }).end(reply);
  });
}

const pathOf = (url = '') => url.replace(/\?.*$/, '');
const queryOf = (url = '') => /\?(.*)$/.exec(url)?.[1] ?? '';

/** API Gateway decodes parameters, and says null when there are none. */
function decodedQuery(url: string | undefined) {
  const query = new URLSearchParams(queryOf(url));
  const lists = Object.fromEntries([...query.keys()].map((name) => [name, query.getAll(name)]));
  return query.size === 0
    ? { queryStringParameters: null, multiValueQueryStringParameters: null }
    : { queryStringParameters: Object.fromEntries(query), multiValueQueryStringParameters: lists };
}

/** A load balancer does not decode parameters. */
function encodedQuery(url: string | undefined): Record<string, string[]> {
  const lists: Record<string, string[]> = {};
  for (const pair of queryOf(url).split('&').filter(Boolean)) {
    const [name = '', value = ''] = pair.split('=');
    lists[name] = [...(lists[name] ?? []), value];
  }
  return lists;
}

function mapValues<Value>(
  lists: NodeJS.Dict<string[]>,
  map: (values: readonly string[]) => Value,
): Record<string, Value> {
  return Object.fromEntries(Object.entries(lists).map(([name, values]) => [name, map(values ?? [])]));
}
