/** Compares requests, responses and deliveries with `openapi.json`. */
import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { onTestFinished } from 'vitest';
import * as z from 'zod/mini';

type Content = Readonly<Record<string, { readonly schema: object; readonly example?: unknown }>>;

interface Operation {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content; readonly $ref?: string }>>;
}

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly schema: object;
  readonly $ref?: string;
}

/** The document, as far as the checks read it. */
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>;
  readonly components: { readonly examples: Readonly<Record<string, { readonly value: unknown }>> };
}

export const DOCUMENT_PATH = new URL('../../openapi.json', import.meta.url);

export const document: Document = JSON.parse(readFileSync(DOCUMENT_PATH, 'utf8'));

const ID = 'https://stablehooks.invalid/openapi.json';
const dateTime = z.iso.datetime({ offset: true });
const ajv = new Ajv2020({
  allErrors: true,
  formats: { 'date-time': (value) => z.safeParse(dateTime, value).success },
  // The document around its schemas is not JSON Schema.
  keywords: Object.keys(document),
});
ajv.addSchema(document, ID);

/** What a request or response is checked by. */
export interface Exchange {
  readonly method: string;
  /** With or without origin, base path and query. */
  readonly url: string;
}

export interface SentRequest extends Exchange {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

export interface ReceivedResponse extends Exchange {
  readonly status: number;
  readonly contentType: string | null;
  readonly body: string;
}

/** What of a request the document does not describe; an empty list if it describes all of it. */
export function requestDeviations(request: SentRequest): readonly string[] {
  const found = findOperation(request);
  if (found === undefined) return [`${request.method} ${request.url} is no operation`];
  const { operation, pointer, search } = found;
  const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query');
  const known = new Map(parameters.map(({ name, schema }) => [name, schema]));
  const deviations = [...search].flatMap(([name, value]) => {
    const schema = known.get(name);
    if (schema === undefined) return [`the query parameter ${name} is unknown`];
    const typed = 'type' in schema && schema.type === 'integer' ? Number(value) : value;
    return errorsOf(ajv.compile(schema), typed).map((error) => `the query parameter ${name} ${error}`);
  });
  if (!/^Bearer \S+$/.test(String(request.headers['authorization']))) deviations.push('no bearer token');
  if (operation.requestBody === undefined) {
    if (request.body !== '') deviations.push('a body where none is described');
    return deviations;
  }
  if (request.headers['content-type'] !== 'application/json') deviations.push('no application/json');
  return [...deviations, ...bodyDeviations(`${pointer}/requestBody/content/application~1json`, request.body)];
}

/**
 * What of a response of the service the document does not describe. A request that is no operation of the document has
 * only errors.
 */
export function responseDeviations(response: ReceivedResponse): readonly string[] {
  const { status, contentType, body } = response;
  const found = findOperation(response);
  if (found === undefined) return status >= 400 ? [] : [`${status} where there is no operation`];
  const { operation, pointer } = found;
  const range = `${String(status)[0]}XX`;
  const key = [String(status), range, 'default'].find((one) => one in operation.responses);
  if (key === undefined) return [`the status ${status} is not described`];
  // An error must not be described as success, and success not as an error.
  if (key === 'default' && status < 400) return [`the status ${status} is described as an error`];
  const at = operation.responses[key]?.$ref ?? `${pointer}/responses/${key}`;
  const type = contentType?.split(';')[0]?.trim() ?? 'no content type';
  const content = resolve(at)?.content;
  if (content === undefined || !(type in content)) return [`${status} with ${type} is not described`];
  return bodyDeviations(`${at}/content/${type.replaceAll('/', '~1')}`, body);
}

/** Lists what the document does not describe in the body of a webhook. An unknown type is compared as any event. */
export function deliveryDeviations(body: string): readonly string[] {
  const type = z.safeParse(z.object({ type: z.string() }), parseJson(body)).data?.type ?? '';
  if (!Object.hasOwn(document.webhooks, type)) return validateAt('#/components/schemas/WebhookEvent', body);
  return bodyDeviations(`#/webhooks/${type}/post/requestBody/content/application~1json`, body);
}

/** Fails the test, at its end, if anything deviated from the document. Call it before the first exchange of the test. */
export function collectDeviations(): (where: string, deviations: readonly string[]) => void {
  const collected: string[] = [];
  onTestFinished(async () => {
    // What arrived last may still be compared.
    await new Promise(setImmediate);
    if (collected.length > 0) throw new Error(`Not as openapi.json describes it:\n${collected.join('\n')}`);
  });
  return (where, deviations) => void collected.push(...deviations.map((one) => `${where}: ${one}`));
}

function findOperation({ method, url }: Exchange) {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  const path = pathname.slice(Math.max(0, pathname.indexOf('/v1/')));
  const template = Object.keys(document.paths).find((one) =>
    new RegExp(`^${one.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path),
  );
  const name = method.toLowerCase();
  const operation = template === undefined ? undefined : document.paths[template]?.[name];
  if (template === undefined || operation === undefined) return undefined;
  const pointer = `#/paths/${template.replaceAll('/', '~1')}/${name}`;
  return { operation, pointer, search: searchParams };
}

function bodyDeviations(pointer: string, body: string): readonly string[] {
  return validateAt(`${pointer}/schema`, body);
}

const checks = new Map<string, ValidateFunction>();

function validateAt(pointer: string, body: string): readonly string[] {
  const value = parseJson(body);
  if (value === undefined) return ['the body is not JSON'];
  // Compiled once: compiling takes longer than the exchange that is checked.
  const check = checks.get(pointer) ?? ajv.compile({ $ref: ID + encodeURI(pointer) });
  checks.set(pointer, check);
  return errorsOf(check, value).map((error) => `the body ${error}`);
}

function errorsOf(check: ValidateFunction, value: unknown): readonly string[] {
  if (check(value)) return [];
  return (check.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`.trim());
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function resolve(pointer: string): { readonly content?: Content } | undefined {
  let value: unknown = document;
  for (const segment of pointer.split('/').slice(1)) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~');
    value = (value as Readonly<Record<string, unknown>>)[key];
  }
  return value as { readonly content?: Content } | undefined;
}
