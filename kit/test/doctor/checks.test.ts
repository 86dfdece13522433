import { createReceiver } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { describe, expect, test } from 'vitest';
import { createFetchServer } from '../../../test/adapters/fetch-server.js';
import { type CheckResult, DELIVERY_CHECKS } from '../../src/doctor/checks.js';
import { createTestedEndpoint } from '../../src/doctor/endpoint.js';
import { SECRET } from '../command.js';
import { type RunningServer, serve } from '../http-server.js';
import { failingOnRequest, QUIET } from './stablehooks-receiver.js';

type Reply = readonly [status: number, code?: string];

/**
 * A right receiver that answers the deliveries of one check by these replies, in their order; by itself where there is
 * none. `GET /effects/{id}` counts one effect of each event.
 */
async function startReplying(check: string, replies: readonly (Reply | undefined)[]): Promise<RunningServer> {
  const handlers = { 'transfer.settled': failingOnRequest };
  const handle = toFetchHandler(createReceiver({ secret: SECRET, logger: QUIET, handlers }));
  const left = [...replies];
  return serve(
    createFetchServer(async (request) => {
      if (request.method === 'GET') return new Response('1');
      const isOfCheck = (await request.clone().text()).includes(`"doctor":"${check}"`);
      const [status, code] = (isOfCheck ? left.shift() : undefined) ?? [];
      if (status === undefined) return handle(request);
      return code === undefined ? new Response('', { status }) : Response.json({ code }, { status });
    }),
  );
}

async function examineOne(
  name: string,
  server: RunningServer,
  { counted = false }: { readonly counted?: boolean } = {},
): Promise<CheckResult> {
  const check = DELIVERY_CHECKS.find((each) => each.name === name);
  if (check === undefined) throw new Error(`There is no check ${name}.`);
  return check.run(
    createTestedEndpoint({
      url: `${server.url}/hooks`,
      secret: SECRET,
      signature: { header: 'X-SERVICE-Signature', encoding: undefined, prefix: '' },
      type: 'transfer.settled',
      timeoutMs: 60_000,
      oversizeBytes: 2_000_000,
      effectsUrl: counted ? `${server.url}/effects/{id}` : undefined,
      signal: new AbortController().signal,
    }),
  );
}

describe('failing handler', () => {
  test.for([
    'ERR_RECEIVER_CLOSED',
    'ERR_KEY_BUSY',
    'ERR_INBOX_FAILED',
    'ERR_PAYLOAD_INVALID',
    'ERR_CONFIG_INVALID',
  ])('is not shown by the reply 503 %s, which does not say that a handler failed', async (code) => {
    await using server = await startReplying('failing-handler', Array(2).fill([503, code]));
    expect(await examineOne('failing handler', server)).toMatchObject({
      verdict: 'not shown',
      got: `503 ${code}`,
      fix: expect.stringMatching(new RegExp(`^The response ${code} does not show what a handler did\\. `)),
    });
  });

  test.for(['ERR_RECEIVER_CLOSED', 'ERR_INBOX_FAILED'])(
    'is not shown when only the first reply says that a handler failed, and the second one is 503 %s',
    async (code) => {
      await using server = await startReplying('failing-handler', [undefined, [503, code]]);
      expect(await examineOne('failing handler', server)).toMatchObject({
        verdict: 'not shown',
        got: `500 ERR_HANDLER_FAILED, 503 ${code}`,
      });
    },
  );

  test.for<readonly [string, readonly (Reply | undefined)[]]>([
    ['a handler that fails twice', []],
    [
      'a handler that does not end',
      [
        [500, 'ERR_HANDLER_TIMEOUT'],
        [503, 'ERR_EVENT_BUSY'],
      ],
    ],
    ['an event that waits for its retry time', [undefined, [503, 'ERR_EVENT_NOT_DUE']]],
    ['5xx without a code', [[500], [502]]],
    [
      '5xx with a code of another receiver',
      [
        [500, 'E_INTERNAL'],
        [500, 'E_INTERNAL'],
      ],
    ],
  ])('is passed by %s', async ([, replies]) => {
    await using server = await startReplying('failing-handler', replies);
    expect(await examineOne('failing handler', server)).toMatchObject({ verdict: 'pass' });
  });

  test('fails when the second delivery of the failed event is answered 4xx, which stops its retries', async () => {
    await using server = await startReplying('failing-handler', [undefined, [404]]);
    expect(await examineOne('failing handler', server)).toMatchObject({
      verdict: 'fail',
      got: '500 ERR_HANDLER_FAILED, 404',
      fix: expect.stringMatching(/^Return a 5xx when a handler fails/),
    });
  });

  test('fails when the failure has ended the process', async () => {
    const server = createFetchServer(async () => {
      server.close();
      return new Response('', { status: 500, headers: { connection: 'close' } });
    });
    await using running = await serve(server);
    expect(await examineOne('failing handler', running)).toMatchObject({
      verdict: 'fail',
      fix: expect.stringContaining('Nothing is listening any more'),
    });
  });
});

describe('concurrent', () => {
  test.for([false, true])(
    'is not shown when all deliveries but one are turned away before the event is looked at (effects counted: %s)',
    async (counted) => {
      const turnedAway = Array(7).fill([503, 'ERR_RECEIVER_BUSY']);
      await using server = await startReplying('concurrent', turnedAway);
      expect(await examineOne('concurrent', server, { counted })).toMatchObject({
        verdict: 'not shown',
        got: expect.stringMatching(/7 × 503 ERR_RECEIVER_BUSY/),
        fix: expect.stringMatching(/^The response ERR_RECEIVER_BUSY does not show what a handler did\. /),
      });
    },
  );

  test.for([false, true])(
    'is not shown when all deliveries but one are refused without a code, as a proxy does (effects counted: %s)',
    async (counted) => {
      await using server = await startReplying('concurrent', Array(7).fill([503]));
      expect(await examineOne('concurrent', server, { counted })).toMatchObject({
        verdict: 'not shown',
        fix: expect.stringMatching(/^All deliveries except one were refused without a `code`/),
      });
    },
  );

  test('is passed by one event handled while the others are told that it runs', async () => {
    await using server = await startReplying('concurrent', Array(7).fill([503, 'ERR_EVENT_BUSY']));
    expect(await examineOne('concurrent', server)).toMatchObject({ verdict: 'pass' });
  });
});

test.for([
  ['a code', Response.json({ code: 'ERR_HANDLER_FAILED' }), 'reports ERR_HANDLER_FAILED'],
  ['a page', new Response('<!doctype html>Log in'), 'responded with an HTML page'],
  ['more than 64 KiB', new Response('x'.repeat(65_537)), 'more than 64 KiB'],
] as const)('2xx with %s does not show that a handler ran', async ([, reply, why]) => {
  await using server = await serve(createFetchServer(async () => reply.clone()));
  expect(await examineOne('chunked', server)).toMatchObject({
    verdict: 'not shown',
    fix: expect.stringContaining(why),
  });
});
