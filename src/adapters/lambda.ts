/** `stablehooks/lambda`: the adapter for AWS Lambda behind API Gateway, a function URL or a load balancer. */

import { ConfigError } from '../core/errors.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import { receive } from '../receiver/receive.js';
import { type ReceiverSource, toParts } from '../receiver/source.js';
import { tooLarge, unavailable } from './body-error.js';

const FIX =
  'Pass the event to the handler as you received it. With middy, remove httpJsonBodyParser from this function.';

/** The fields that the handler reads in events from API Gateway (payload formats 1.0 and 2.0), function URLs and ALB. */
export type LambdaEvent = {
  readonly headers?: Readonly<Record<string, string | undefined>> | null | undefined;
  readonly multiValueHeaders?: Readonly<Record<string, readonly string[] | undefined>> | null | undefined;
  readonly body?: string | null | undefined;
  readonly isBase64Encoded: boolean;
  /** Set in payload format 2.0 and by function URLs. */
  readonly rawPath?: string | undefined;
  readonly rawQueryString?: string | undefined;
  /** Set in payload format 1.0 and by ALB, like the query parameters below. */
  readonly path?: string | undefined;
  readonly queryStringParameters?: Readonly<Record<string, string | undefined>> | null | undefined;
  readonly multiValueQueryStringParameters?:
    | Readonly<Record<string, readonly string[] | undefined>>
    | null
    | undefined;
} & (
  | { readonly httpMethod: string }
  | { readonly requestContext: { readonly http: { readonly method: string } } }
);

/**
 * Creates a handler for Lambda. Lambda instances don't share memory, so the receiver needs an inbox that all instances
 * share. The gateway must forward bodies unchanged, without a mapping template. Even with `answer: 'recorded'`, the
 * response waits until your handler has ended, for up to `leaseMs`, because Lambda freezes the process after the response.
 *
 * Every HTTP request gets a response. For any other invocation, such as a batch of SQS messages, a scheduled event or a
 * warm-up, the handler rejects with `ERR_CONFIG_INVALID`, because Lambda would treat any return value as success.
 *
 * @param receiver - a receiver, or a function that creates the receiver on the first delivery.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is neither a receiver nor a function.
 *
 * @example
 * ```ts
 * export const handler = toLambdaHandler(receiver);
 * ```
 */
export function toLambdaHandler(receiver: ReceiverSource) {
  const parts = toParts('toLambdaHandler', receiver);
  return async (input: LambdaEvent) => {
    // A test or a warm-up can invoke the function with any JSON, such as null or a string.
    const event: LambdaEvent = Object(input);
    const method = readMethod(event);
    const works: Promise<unknown>[] = [];
    const outcome = await receive(parts, {
      method,
      url: toUrl(event),
      header: (name) => readHeader(event, name.toLowerCase()),
      body: (maxBytes) => readBody(event, maxBytes),
      waitUntil: (work) => works.push(work),
    });
    await Promise.all(works);
    const { status: statusCode, headers, body } = toWebhookResponse(outcome);
    const lists = Object.entries(headers).map(([name, value]): [string, string[]] => [name, [value]]);
    // A load balancer that sends header values as lists also accepts only lists.
    const fields = event.multiValueHeaders ? { multiValueHeaders: Object.fromEntries(lists) } : { headers };
    return { statusCode, ...fields, body, isBase64Encoded: false };
  };
}

/** Throws if the method is missing, because SQS would delete its message if the handler returned. */
function readMethod(event: LambdaEvent): string {
  const method: unknown = 'httpMethod' in event ? event.httpMethod : event.requestContext?.http?.method;
  if (typeof method === 'string') return method;
  throw new ConfigError(
    'toLambdaHandler: the invocation is not an HTTP request. Connect the function to API Gateway, a function URL or a load balancer. Handle warm-ups before you call this handler.',
  );
}

function readBody({ body, isBase64Encoded }: LambdaEvent, maxBytes: number): Uint8Array {
  const text: unknown = body ?? '';
  // Middleware in front of the handler may have parsed the body.
  if (typeof text !== 'string') throw unavailable(FIX);
  const bytes = Buffer.from(text, isBase64Encoded ? 'base64' : 'utf8');
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}

/** Includes the API's stage, as in the URL that the sender requested. */
function toUrl(event: LambdaEvent): string {
  const { path: stagePath, elb } = Object(Reflect.get(event, 'requestContext'));
  const path = [event.rawPath, stagePath, event.path].find((value) => typeof value === 'string') ?? '';
  // Some gateways decode the path. A `?` in such a path was `%3F`, so it does not begin the query.
  const encoded = path.replaceAll('?', '%3F').replaceAll('#', '%23');
  const raw: unknown = event.rawQueryString;
  const query = typeof raw === 'string' ? raw : toQuery(event, elb !== undefined);
  return query === '' ? encoded : `${encoded}?${query}`;
}

function toQuery(event: LambdaEvent, isEncoded: boolean): string {
  const all = { ...event.queryStringParameters, ...event.multiValueQueryStringParameters };
  const pairs = Object.entries(all).flatMap(([name, values]) =>
    [values ?? []].flat().flatMap((value) => (typeof value === 'string' ? [[name, value]] : [])),
  );
  // API Gateway decodes parameters, but a load balancer does not.
  return isEncoded
    ? pairs.map(([name, value]) => `${name}=${value}`).join('&')
    : new URLSearchParams(pairs).toString();
}

function readHeader({ headers, multiValueHeaders }: LambdaEvent, wanted: string): string | undefined {
  // A name can occur twice, in upper and lower case. Gateways that pass both maps put the same values into both.
  const valuesIn = (all: object) =>
    Object.entries(all).flatMap(([name, value]) => (name.toLowerCase() === wanted ? (value ?? []) : []));
  const values = [multiValueHeaders, headers].map((all) => valuesIn(all ?? {}));
  return values.find(({ length }) => length > 0)?.join(', ');
}
