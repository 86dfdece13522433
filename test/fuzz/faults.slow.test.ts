/** Each oracle of the fuzzers can fail: a receiver or server with a fault of each kind is found. */
import {
  createReceiver,
  type Receiver,
  type ReceiverOptions,
  SIGNATURE_HEADER,
  sign,
  type WebhookRequest,
} from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { BATCH, fuzzReceive, notShown } from './receive.js';
import { FAULT_NAMES } from './socket-faults.js';
import { fuzzSockets, growthOf, shapesNotShown } from './sockets.js';
import type { MakeReceiver } from './variants.js';

const SEED = 18;

// Many seconds of work, and more on a busy machine.
vi.setConfig({ testTimeout: 600_000 });

/** Some of the secrets that a receiver was made with. */
const secretOf = ({ secret }: ReceiverOptions) =>
  typeof secret === 'function' ? undefined : [secret].flat().find((one) => typeof one === 'string');

/** A receiver whose requests are changed before it gets them. */
const changing =
  (change: (request: WebhookRequest) => WebhookRequest): MakeReceiver =>
  (options) => {
    const receiver = createReceiver(options);
    return { ...receiver, receive: (request) => receiver.receive(change(request)) };
  };

/** A receiver whose `receive` is replaced. */
const replacing =
  (make: (receiver: Receiver, options: ReceiverOptions) => Receiver['receive']): MakeReceiver =>
  (options) => {
    const receiver = createReceiver(options);
    return { ...receiver, receive: make(receiver, options) };
  };

/** The request with another body or signature; what reading it throws stays. */
function requestWith(
  request: WebhookRequest,
  { body, signature }: { readonly body?: (bytes: Uint8Array) => Uint8Array; readonly signature?: string },
): WebhookRequest {
  return {
    method: request.method,
    url: request.url,
    header: (name) =>
      signature !== undefined && name === SIGNATURE_HEADER ? signature : request.header(name),
    async body(maxBytes) {
      const bytes = await request.body(maxBytes);
      return body === undefined ? bytes : body(bytes);
    },
  };
}

const serializedAgain = (bytes: Uint8Array) => {
  try {
    return Buffer.from(JSON.stringify(JSON.parse(Buffer.from(bytes).toString())));
  } catch {
    return bytes;
  }
};

const RECEIVE_FAULTS: Readonly<Record<string, { readonly make: MakeReceiver; readonly finding: RegExp }>> = {
  'a verifier that accepts the first digits of a signature': {
    make: replacing((receiver, options) => async (request) => {
      const outcome = await receiver.receive(request);
      const [secret, given] = [secretOf(options), safeHeader(request)];
      if (outcome.error?.code !== 'ERR_SIGNATURE_MALFORMED' || secret === undefined || !given) return outcome;
      const signature = await sign(await request.body(32_768), { secret });
      return signature.startsWith(given) ? receiver.receive(requestWith(request, { signature })) : outcome;
    }),
    finding: /handled instead of ERR_SIGNATURE_MALFORMED/,
  },
  'a verifier that takes white space off a signature': {
    make: changing((request) => {
      const given = safeHeader(request);
      return given ? requestWith(request, { signature: given.trim() }) : request;
    }),
    finding: /handled instead of ERR_SIGNATURE_MALFORMED/,
  },
  'a signature over JSON that was serialized again': {
    make: changing((request) => requestWith(request, { body: serializedAgain })),
    finding: /ERR_SIGNATURE_MISMATCH instead of handled/,
  },
  'a parser before the verification': {
    make: replacing((receiver) => async (request) => {
      let isJson = true;
      const check = (bytes: Uint8Array) => {
        try {
          JSON.parse(Buffer.from(bytes).toString());
        } catch {
          isJson = false;
        }
        return bytes;
      };
      const outcome = await receiver.receive(requestWith(request, { body: check }));
      return isJson || outcome.error?.code !== 'ERR_SIGNATURE_MISMATCH'
        ? outcome
        : receiver.accept({ id: 'x', type: 'x', created_at: '', payload: {} }, 'push');
    }),
    finding: /instead of ERR_SIGNATURE_MISMATCH/,
  },
  'a line of the log that quotes the body': {
    make: replacing((receiver, { logger }) => async (request) => {
      const quote = (bytes: Uint8Array) => {
        logger?.warn(`got ${Buffer.from(bytes).toString()}`);
        return bytes;
      };
      return receiver.receive(requestWith(request, { body: quote }));
    }),
    finding: /a line of the log contains/,
  },
  'a line of the log that quotes the signature': {
    make: replacing((receiver, { logger }) => async (request) => {
      logger?.warn(`signature ${safeHeader(request)}`);
      return receiver.receive(request);
    }),
    finding: /a line of the log contains/,
  },
  'an error that quotes the secret': {
    make: replacing((receiver, options) => async (request) => {
      const outcome = await receiver.receive(request);
      const { error } = outcome;
      if (error !== undefined) error.cause = new Error('inner', { cause: new Error(`${secretOf(options)}`) });
      return outcome;
    }),
    finding: /an error contains/,
  },
  'a handler that gets characters of another encoding': {
    make: (options) => {
      const changed = (event: object) => JSON.parse(Buffer.from(JSON.stringify(event)).toString('latin1'));
      const handlers = Object.entries(options.handlers).map(([type, run]) => [
        type,
        (event: never, context: never) => (run as (...given: unknown[]) => void)(changed(event), context),
      ]);
      return createReceiver({ ...options, handlers: Object.fromEntries(handlers) });
    },
    finding: /the handler got another event than JSON.parse/,
  },
  'a handler that runs twice': {
    make: (options) => {
      const handlers = Object.entries(options.handlers).map(([type, run]) => [
        type,
        (event: never, context: never) => {
          (run as (...given: unknown[]) => void)(event, context);
          return (run as (...given: unknown[]) => void)(event, context);
        },
      ]);
      return createReceiver({ ...options, handlers: Object.fromEntries(handlers) });
    },
    finding: /the handler ran 2 times/,
  },
  'a receiver that rejects': {
    make: replacing((receiver) => async (request) => {
      if (request.method === 'TRACE') throw new Error('no such method');
      return receiver.receive(request);
    }),
    finding: /receive rejects/,
  },
  'a receiver that never resolves': {
    make: replacing(
      (receiver) => async (request) =>
        request.method === '' ? new Promise<never>(() => undefined) : receiver.receive(request),
    ),
    finding: /receive never resolves/,
  },
  'a limit of the body that is not kept': {
    make: (options) => createReceiver({ ...options, maxBodyBytes: 1_000_000 }),
    finding: /instead of ERR_BODY_TOO_LARGE/,
  },
  'an outcome of another kind': {
    make: replacing((receiver) => async (request) => {
      const outcome = await receiver.receive(request);
      return outcome.kind === 'ignored' ? { origin: 'push', kind: 'handled' } : outcome;
    }),
    finding: /handled instead of ignored/,
  },
};

/** The signature header of requests that do not throw. */
function safeHeader(request: WebhookRequest): string | null | undefined {
  try {
    return request.header(SIGNATURE_HEADER);
  } catch {
    return undefined;
  }
}

describe('the fuzzer of receive', () => {
  const span = { seed: SEED, from: 0, to: 8 * BATCH };

  test('finds nothing in a receiver without a fault, and gives the same inputs again', async () => {
    const first = await fuzzReceive(span);
    expect(first.findings).toEqual([]);
    expect(await fuzzReceive(span)).toEqual(first);
  });

  test.each(Object.entries(RECEIVE_FAULTS))('finds %s', async (_name, { make, finding }) => {
    const { findings } = await fuzzReceive({ ...span, make });
    expect(findings.map(({ what }) => what).filter((what) => finding.test(what))).not.toEqual([]);
  });

  test('names the mutation that is needed, the seed and the index, and nothing confidential', async () => {
    const { make } = RECEIVE_FAULTS['a line of the log that quotes the body'] as {
      readonly make: MakeReceiver;
    };
    const { findings } = await fuzzReceive({ ...span, make });
    expect(findings[0]).toMatchObject({ seed: SEED, index: expect.any(Number), steps: expect.any(Array) });
    expect(JSON.stringify(findings)).not.toMatch(/mark[0-9a-z]{20}/);
    expect(JSON.stringify(findings)).toContain('(redacted)');
  });

  test('says what never occurred', async () => {
    const { outcomes, mutations } = await fuzzReceive({ ...span, to: 10 });
    expect(notShown({ outcomes, mutations }).length).toBeGreaterThan(20);
  });
});

/** What the fuzzer of sockets says about each fault. */
const SOCKET_FINDINGS: Readonly<Record<string, RegExp>> = {
  'keeps a buffer of each request': /each request leaves \d+ bytes behind/,
  'logs the body': /lines contain something confidential/,
  'handles without a signature': /an event is handled that must be refused/,
  'handles other bytes': /an event is handled with other bytes/,
  'never answers some': /a connection is neither answered nor closed/,
  'ends the process': /the process of the servers ended/,
  'forgets a delivery': /a valid delivery is not handled/,
};

describe('the fuzzer of sockets', () => {
  test('knows a finding for every fault', () => {
    expect(Object.keys(SOCKET_FINDINGS)).toEqual(FAULT_NAMES);
  });

  test('finds nothing in servers without a fault', async () => {
    const { findings, requests } = await fuzzSockets({ seed: SEED, requests: 1_500 });
    expect(findings).toEqual([]);
    expect(requests).toBeGreaterThanOrEqual(1_500);
  });

  test.each(Object.entries(SOCKET_FINDINGS))('finds a server that %s', async (fault, finding) => {
    // A server that never answers is waited for until the limit.
    const { findings } = await fuzzSockets({ seed: SEED, requests: 3_000, fault, limitMs: 20_000 });
    expect(findings.map(({ what }) => what).filter((what) => finding.test(what))).not.toEqual([]);
  });

  test('tells growth from variation', () => {
    const samples = (growth: number) =>
      Array.from({ length: 40 }, (_, at) => ({
        requests: at * 100,
        bytes: 1e7 + at * 100 * growth + (at % 3) * 500,
      }));
    expect(growthOf(samples(0))).toBeLessThan(1);
    expect(growthOf(samples(100))).toBeCloseTo(100, 0);
  });

  test('says what never occurred', () => {
    expect(shapesNotShown({ shapes: {}, statuses: {} }).length).toBeGreaterThan(100);
  });
});
