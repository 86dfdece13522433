import { fileURLToPath } from 'node:url';
import { createConfig, lint } from '@redocly/openapi-core';
import { EVENT_TYPES } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, test } from 'vitest';
import {
  DOCUMENT_PATH,
  deliveryDeviations,
  document,
  requestDeviations,
  responseDeviations,
} from './check.js';

describe('openapi.json', () => {
  test('is valid OpenAPI 3.1 with valid examples, by the validator of Redocly', async () => {
    const config = await createConfig({
      extends: ['recommended'],
      rules: {
        'no-invalid-media-type-examples': 'error',
        'no-unused-components': 'error',
        // The service does not specify which errors it answers: `default` describes them.
        'operation-4xx-response': 'off',
      },
    });
    const problems = await lint({ ref: fileURLToPath(DOCUMENT_PATH), config });
    expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual(
      [],
    );
  });

  test('has one webhook for each event type, with the payload of exampleEvent as its example', () => {
    expect(Object.keys(document.webhooks)).toEqual([...EVENT_TYPES]);
    for (const type of EVENT_TYPES) {
      const example = exampleOf(type);
      expect(example).toEqual(exampleEvent(type, { id: example.id }));
      expect(deliveryDeviations(JSON.stringify(example))).toEqual([]);
    }
  });

  test('lists events as the webhooks show them, with whether they were delivered', () => {
    const list = document.paths['/v1/webhooks/events']?.['get']?.responses['200'];
    const event = { ...exampleOf('transfer.failed'), delivered: true };
    expect(list?.content?.['application/json']?.example).toEqual([event]);
  });
});

function exampleOf(type: string): { readonly id: string } {
  const name = type.replaceAll(/(?:^|\.)(\w)/g, (_, letter) => letter.toUpperCase());
  return document.components.examples[name]?.value as { readonly id: string };
}

describe('the sandbox', () => {
  test('serves the document at /openapi.json without a token, with itself as the only server', async () => {
    const sandbox = createSandbox();
    const response = await sandbox.fetch(new Request('http://localhost:4010/openapi.json'));
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    const served = await response.json();
    expect(served).toEqual({
      ...document,
      servers: [{ url: 'http://localhost:4010', description: 'This sandbox' }],
    });
  });
});

describe('the checks of requests and responses', () => {
  const wallet = document.components.examples['Wallet']?.value as object;
  const response = { method: 'POST', url: '/v1/wallets', status: 201, contentType: 'application/json' };
  const input = { agentId: 'a', chain: 'base', limits: { perTx: '1', daily: '2' }, allowlist: [] };
  const request = {
    method: 'POST',
    url: 'http://localhost/base/v1/wallets',
    headers: { authorization: 'Bearer token', 'content-type': 'application/json' },
    body: JSON.stringify(input),
  };

  test.each([
    ['a missing field', { body: JSON.stringify({ ...wallet, balance: undefined }) }],
    ['a field of another type', { body: JSON.stringify({ ...wallet, balance: 1 }) }],
    ['another media type', { body: JSON.stringify(wallet), contentType: 'text/html' }],
    ['success where there is no operation', { body: '{}', url: '/v1/nothing' }],
  ])('report a response with %s', (_, change) => {
    expect(responseDeviations({ ...response, ...change })).not.toEqual([]);
  });

  test.each([
    ['no token', { headers: { 'content-type': 'application/json' } }],
    ['a chain without wallets', { body: JSON.stringify({ ...input, chain: 'arc' }) }],
    ['a missing field', { body: JSON.stringify({ ...input, limits: undefined }) }],
    ['an unknown query parameter', { method: 'GET', url: '/v1/webhooks/events?cursor=1', body: '' }],
  ])('report a request with %s', (_, change) => {
    expect(requestDeviations({ ...request, ...change })).not.toEqual([]);
  });
});
