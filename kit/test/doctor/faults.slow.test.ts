import { writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { describe, expect, test } from 'vitest';
import { makeFolder, SECRET } from '../command.js';
import { type RunningServer, serve } from '../http-server.js';
import { type CertificateOptions, makeCertificate } from './certificate.js';
import { examine } from './examine.js';
import { ackBeforeFailure } from './wrong-receivers/ack-before-failure.js';
import { startClusterWithMemory } from './wrong-receivers/cluster-memory.js';
import { noDedupe } from './wrong-receivers/no-dedupe.js';
import { noHandler } from './wrong-receivers/no-handler.js';
import { paddedSecret } from './wrong-receivers/padded-secret.js';
import { parserFirst } from './wrong-receivers/parser-first.js';
import { parserFirstHanging } from './wrong-receivers/parser-first-hanging.js';
import { startPrettyPrintingProxy } from './wrong-receivers/pretty-printing-proxy.js';
import { redirects } from './wrong-receivers/redirects.js';
import { slow, WORK_MS } from './wrong-receivers/slow.js';
import { createListener } from './wrong-receivers/stablehooks-receiver.js';
import { wrongHeader } from './wrong-receivers/wrong-header.js';
import { wrongPath } from './wrong-receivers/wrong-path.js';
import {
  answer,
  createPlainReceiver,
  readBody,
  signatureOf,
  takeOnce,
  verifyRaw,
  type WrongReceiver,
} from './wrong-receivers/wrong-receiver.js';
import { wrongSecret } from './wrong-receivers/wrong-secret.js';

/** An endpoint with one fault, the check that finds it, and the sentence that says what to change. */
interface Fault {
  readonly name: string;
  readonly start: () => Promise<RunningServer>;
  readonly check: string;
  readonly fix: string;
  readonly verdict?: 'not shown';
  /** Passes `--effects`. @default false */
  readonly counted?: boolean;
  /** How long doctor waits for an answer; short for an endpoint that gives none. @default '60s' */
  readonly timeout?: string;
}

const listening = (receiver: WrongReceiver) => () => serve(receiver(SECRET));

/** Answers each genuine delivery in the same way. No event has an effect. */
function answering({
  status,
  reply = '',
  large = 413,
}: {
  readonly status: number;
  readonly reply?: string;
  readonly large?: number;
}): RequestListener {
  return async (request, response) => {
    if (request.url?.startsWith('/effects/')) return answer(response, 200, '0');
    // A body that is cut off has no end to wait for.
    const body = await readBody(request).catch(() => undefined);
    if (body === undefined) return answer(response, large);
    return verifyRaw(SECRET)(body, signatureOf(request))
      ? answer(response, status, reply)
      : answer(response, 401);
  };
}

/** Checks the signature and nothing else. */
const verifiesOnly: WrongReceiver = (secret) =>
  createPlainReceiver({ authentic: verifyRaw(secret), take: () => undefined });

const FAULTS: readonly Fault[] = [
  {
    name: 'redirects',
    start: listening(redirects),
    check: 'genuine',
    fix: 'It redirects (307) with Location: URL/login?…. Deliveries do not follow redirects: register that URL if the receiver is there',
  },
  {
    name: 'answers before the work',
    start: listening(ackBeforeFailure),
    check: 'failing handler',
    fix: 'It answers 2xx before the work is done: do the work first or enqueue it durably',
    counted: true,
  },
  {
    name: 'is not idempotent',
    start: listening(noDedupe),
    check: 'doubled',
    fix: 'Claim each event by its id in one atomic step before the work',
    counted: true,
  },
  {
    name: 'reads another header',
    start: listening(wrongHeader),
    check: 'genuine',
    fix: 'It finds no signature in X-SERVICE-Signature: set `signature: { header }` of the receiver to the header that the service sends, or pass its name with --header',
  },
  {
    name: 'has another secret',
    start: listening(wrongSecret),
    check: 'genuine',
    fix: 'It has another secret than this one',
  },
  {
    name: 'has a newline at the end of its secret',
    start: listening(paddedSecret),
    check: 'genuine',
    fix: 'A setting of the receiver is wrong, and its log names it. If the secret comes from a function or a file, it may end with a newline: use .trim().',
  },
  {
    name: 'has a body parser in front and refuses',
    start: listening(parserFirst),
    check: 'genuine',
    fix: 'A body parser before the receiver consumed the bytes',
    timeout: '4s',
  },
  {
    name: 'has a body parser in front and waits for the body',
    start: listening(parserFirstHanging),
    check: 'genuine',
    fix: 'A body parser before the receiver consumed the bytes',
    timeout: '4s',
  },
  {
    name: 'is behind a proxy that indents JSON',
    start: () => startPrettyPrintingProxy(SECRET),
    check: 'genuine',
    fix: 'The body is changed before it is verified: it arrives as JSON that is indented by 2 spaces. Let proxies pass the body on byte for byte',
  },
  {
    name: 'is a cluster whose workers have a memory inbox each',
    start: () => startClusterWithMemory(SECRET),
    check: 'concurrent',
    fix: 'Two deliveries of one event were handled: this inbox remembers only one process. Pass a durable one to all processes',
  },
  {
    name: 'is one process that replies handled to each delivery',
    start: () => serve(answering({ status: 200, reply: '{"outcome":"handled"}' })),
    check: 'concurrent',
    fix: 'Two deliveries of one event were handled. If several processes run, pass a durable inbox to all of them (sqliteInbox, postgresInbox or redisInbox); otherwise claim each event by its id in one atomic step before the work.',
  },
  {
    name: 'verifies, and does nothing',
    start: listening(verifiesOnly),
    check: 'genuine',
    fix: 'It answers 2xx before the work is done',
    counted: true,
  },
  {
    name: 'puts events into a queue that nothing runs',
    start: () => serve(answering({ status: 202, reply: '{"outcome":"queued"}' })),
    check: 'genuine',
    verdict: 'not shown',
    fix: 'The event is queued, and nothing has run it within the time limit (--timeout): see the log of the worker.',
    counted: true,
    timeout: '5s',
  },
  {
    name: 'answers 422 to a large body, as to each that its schema does not accept',
    start: () => serve(answering({ status: 200, large: 422 })),
    check: 'oversized',
    verdict: 'not shown',
    fix: 'The reply does not say that the size was the reason: the endpoint may have read the whole body. Answer 413',
  },
  {
    name: 'has no handler',
    start: listening(noHandler),
    check: 'genuine',
    verdict: 'not shown',
    fix: 'No handler ran, whatever the type of the test event was: accept.confirmed, transfer.settled, transfer.failed, redeem.completed, redeem.failed. Register a handler.',
  },
  {
    name: 'is at another path',
    start: listening(wrongPath),
    check: 'genuine',
    fix: 'Nothing accepts a POST at /hooks. An unsigned POST is answered at /api/webhooks (401): check the path.',
  },
];

describe.concurrent('one fault per endpoint', () => {
  test.for(FAULTS)('doctor names the fault of an endpoint that $name', async (fault) => {
    const { start, check, fix, verdict = 'fail', counted = false, timeout = '60s' } = fault;
    await using server = await start();
    const effects = counted ? ['--effects', `${server.url}/effects/{id}`] : [];
    const { exitCode, wrong, stderr } = await examine(`${server.url}/hooks`, [
      '--timeout',
      timeout,
      ...effects,
    ]);
    expect(stderr).toBe('');
    const found = wrong.find(({ name }) => name === check);
    expect({ ...found, fix: found?.fix?.replace(server.url, 'URL') }).toMatchObject({
      verdict,
      fix: expect.stringContaining(fix),
    });
    expect(exitCode).toBe(1);
  });

  test('doctor says after how many seconds a slow endpoint answers, and how fast it refuses', async () => {
    await using server = await serve(slow(SECRET));
    const { checks, exitCode } = await examine(`${server.url}/hooks`, ['--timeout', '4s']);
    const [genuine] = checks;
    const sentence =
      /^It answers after ([\d.]+) s \(200\), and this check waits for 4 s \(--timeout\)\. A forged delivery is refused after \d+ ms, so the handler is slow: enqueue the work durably and answer 202, or make it faster\.$/;
    expect(genuine).toMatchObject({ verdict: 'fail', fix: expect.stringMatching(sentence) });
    expect(Number(sentence.exec(genuine?.fix ?? '')?.[1]) * 1_000).toBeGreaterThanOrEqual(WORK_MS - 100);
    expect(genuine?.elapsedMs).toBeGreaterThanOrEqual(4_000 - 100);
    expect(exitCode).toBe(1);
  });

  test('doctor names the header when the endpoint reads a usual one', async () => {
    await using server = await serve(
      createListener({ secret: SECRET, signature: { header: 'x-webhook-signature' } }),
    );
    const { checks } = await examine(`${server.url}/hooks`, ['--timeout', '60s']);
    expect(checks[0]?.fix).toMatch(
      /^It reads the signature from x-webhook-signature, and this check sends it in /,
    );
  });

  test('doctor says that the body is changed when it cannot tell how', async () => {
    const verify = verifyRaw(SECRET);
    const upperCase = (body: Buffer) => Buffer.from(body.toString().toUpperCase());
    const receiver = createPlainReceiver({
      authentic: (body, signature) => verify(upperCase(body), signature),
      take: takeOnce,
    });
    await using server = await serve(receiver);
    const { checks } = await examine(`${server.url}/hooks`, ['--timeout', '60s']);
    expect(checks[0]?.fix).toMatch(
      /^The body is changed before it is verified: the signature of an empty object/,
    );
  });
});

/** A right receiver with this certificate. */
async function serveTls(certificate: {
  readonly cert: string;
  readonly key: string;
}): Promise<RunningServer> {
  const receiver = createPlainReceiver({ authentic: verifyRaw(SECRET), take: takeOnce });
  const server = await serve(createServer(certificate, receiver));
  return {
    url: server.url.replace('http:', 'https:'),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

describe.concurrent('TLS', () => {
  const DAY_MS = 86_400_000;
  const refused: readonly (readonly [string, CertificateOptions, boolean, string])[] = [
    [
      'is self-signed',
      {},
      false,
      'its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT). Set NODE_EXTRA_CA_CERTS',
    ],
    [
      'has expired',
      { validForMs: -DAY_MS },
      true,
      'its certificate has expired (CERT_HAS_EXPIRED). Renew the certificate.',
    ],
    [
      'is for another host',
      { host: 'other.example' },
      true,
      'its certificate is for another host (ERR_TLS_CERT_ALTNAME_INVALID). Use a host name that the certificate has.',
    ],
  ];

  test.for(refused)(
    'doctor is exit 3 and names the reason when the certificate %s',
    async ([, options, trusted, says]) => {
      await using folder = await makeFolder();
      const certificate = makeCertificate(options);
      await writeFile(folder.at('ca.pem'), certificate.cert);
      await using server = await serveTls(certificate);
      const env = trusted ? { NODE_EXTRA_CA_CERTS: folder.at('ca.pem') } : {};
      const { exitCode, stdout, stderr } = await examine(`${server.url}/hooks`, ['--timeout', '60s'], {
        env,
      });
      expect(stderr).toContain(`${server.url}/hooks cannot be reached: ${says}`);
      expect(stdout).toBe('');
      expect(exitCode).toBe(3);
    },
  );

  test('doctor reaches an endpoint whose self-signed certificate is in NODE_EXTRA_CA_CERTS', async () => {
    await using folder = await makeFolder();
    const certificate = makeCertificate();
    await writeFile(folder.at('ca.pem'), certificate.cert);
    await using server = await serveTls(certificate);
    const { checks } = await examine(`${server.url}/hooks`, ['--timeout', '60s'], {
      env: { NODE_EXTRA_CA_CERTS: folder.at('ca.pem') },
    });
    expect(checks[0]).toMatchObject({ name: 'genuine', verdict: 'pass' });
  });

  test('doctor says that a port does not speak TLS', async () => {
    await using server = await serve(createPlainReceiver({ authentic: verifyRaw(SECRET), take: takeOnce }));
    const { exitCode, stderr } = await examine(server.url.replace('http:', 'https:'));
    expect(stderr).toMatch(/it does not speak TLS \(\w+\)\. Check the port; if it has no certificate, /);
    expect(exitCode).toBe(3);
  });
});
