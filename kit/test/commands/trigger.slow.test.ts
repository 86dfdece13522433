import { createServer } from 'node:https';
import { describe, expect, test } from 'vitest';
import { run, start } from '../command.js';
import { makeCertificate } from '../doctor/certificate.js';
import { findClosedUrl, serve } from '../http-server.js';
import { startEndpoint, startService } from '../service.js';

test('trigger prints the same rows in 50 runs with three endpoints', { timeout: 600_000 }, async () => {
  await using first = await startEndpoint();
  await using second = await startEndpoint();
  await using third = await startEndpoint();
  const urls = [first, second, third].map(({ url }) => url);
  await using service = await startService({ endpoints: urls.map((url) => ({ url })) });
  for (let round = 0; round < 50; round++) {
    const { stdout, exitCode } = await run(['trigger', 'redeem.failed', '--duplicate'], service);
    const rows = stdout
      .trim()
      .split('\n')
      .map((line) => line.split(/ {2,}/));
    expect(rows.map(([, , answer, , url]) => `${answer} ${url}`)).toEqual([
      ...urls.map((url) => `200 handled ${url}`),
      ...urls.map((url) => `200 duplicate ${url}`),
    ]);
    expect(new Set(rows.map(([, id]) => id)).size).toBe(1);
    expect(exitCode).toBe(0);
  }
});

describe.concurrent('trigger', () => {
  test.for([
    [401, 0, /^$/],
    [403, 0, /^$/],
    [404, 1, /404 does not show that the endpoint refused the signature: .* Check the path of --to\./],
    [500, 1, /500 does not show that the endpoint refused the signature/],
    [302, 1, /302 does not show that the endpoint refused the signature/],
    [200, 1, /The endpoint accepted a wrong signature \(200\)/],
  ] as const)('trigger --forge takes %i as exit %i', async ([status, code, says]) => {
    await using site = await serve((_, response) => void response.writeHead(status).end());
    const { stderr, exitCode } = await run(['trigger', 'redeem.failed', '--to', site.url, '--forge']);
    expect(stderr).toMatch(says);
    expect(exitCode).toBe(code);
  });

  test('trigger waits for every endpoint of the sandbox, and fails if one of them fails', async () => {
    await using good = await startEndpoint();
    await using bad = await startEndpoint(() => {
      throw new Error('no');
    });
    const endpoints = [{ url: good.url }, { url: bad.url }];
    await using service = await startService({ endpoints });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed', '--duplicate'], service);
    const lines = stdout.trim().split('\n');
    const answers = lines.map((line) => / (\d{3} \w+) .* (http\S+)$/.exec(line)?.slice(1));
    expect(answers.map((answer) => answer?.[1])).toEqual([good.url, bad.url, good.url, bad.url]);
    expect(answers.map((answer) => answer?.[0]?.startsWith('200'))).toEqual([true, false, true, false]);
    expect(stderr).toContain('4 of 4 sent: ');
    expect(exitCode).toBe(1);
  });

  test.for([
    ['drop', /lost \(fault drop\)/],
    ['cut', /lost \(fault cut\)/],
  ] as const)('an attempt that the sandbox loses by the fault %s is exit 1', async ([fault, says]) => {
    await using endpoint = await startEndpoint();
    await using service = await startService({
      endpoints: [{ url: endpoint.url }],
      faults: { [fault]: { next: 1 } },
    });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
    expect(stdout).toMatch(says);
    expect(stderr).toContain(`1 lost: the sandbox has the fault ${fault}`);
    expect(exitCode).toBe(1);
  });

  test.for(['corruptSignature', 'reserialise'] as const)(
    'a refusal is exit 1 and names the fault %s that made the sandbox send a wrong signature',
    async (fault) => {
      await using endpoint = await startEndpoint();
      await using service = await startService({
        endpoints: [{ url: endpoint.url }],
        faults: { [fault]: { next: 1 } },
      });
      const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
      expect(stdout).toContain(`401 ERR_SIGNATURE_MISMATCH (fault ${fault})`);
      expect(stderr).toContain(
        `1 refused, as it must be: the sandbox made the signature wrong (fault ${fault})`,
      );
      expect(exitCode).toBe(1);
    },
  );

  test('an endpoint that accepts a signature which the sandbox made wrong is exit 1', async () => {
    await using site = await serve((request, response) => {
      request.resume().on('end', () => response.end());
    });
    await using service = await startService({
      endpoints: [{ url: site.url }],
      faults: { corruptSignature: { next: 1 } },
    });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
    expect(stdout).toContain('200 (fault corruptSignature)');
    expect(stderr).toContain('1 accepted although the sandbox made the signature wrong');
    expect(exitCode).toBe(1);
  });

  test('an answer that the sandbox drops by the fault reset is exit 1, although the handler ran', async () => {
    await using endpoint = await startEndpoint();
    await using service = await startService({
      endpoints: [{ url: endpoint.url }],
      faults: { reset: { next: 1 } },
    });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
    expect(stdout).toContain('answer lost (fault reset)');
    expect(stderr).toContain('1 answer lost: the sandbox dropped the answer (fault reset)');
    expect(endpoint.outcomes[0]?.kind).toBe('handled');
    expect(exitCode).toBe(1);
  });

  test('trigger says that the endpoint of the sandbox closes the connection', async () => {
    await using site = await serve((request) => void request.socket.destroy());
    await using service = await startService({ endpoints: [{ url: site.url }] });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
    expect(stdout).toContain('the connection was cut (UND_ERR_SOCKET)');
    expect(stderr).toContain('See the log of the other side. If its port expects TLS');
    expect(stderr).toContain('The sandbox makes this connection');
    expect(exitCode).toBe(3);
  });

  test('trigger says that the sandbox does not trust the certificate of its endpoint', async () => {
    await using site = await serve(createServer(makeCertificate()));
    const url = site.url.replace('http:', 'https:');
    await using service = await startService({ endpoints: [{ url }] });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
    expect(stdout).toContain('its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT)');
    expect(stderr).toContain('Set NODE_EXTRA_CA_CERTS to the PEM file');
    expect(exitCode).toBe(3);
  });

  test('trigger says that the endpoint of the sandbox does not listen', async () => {
    await using service = await startService({ endpoints: [{ url: await findClosedUrl() }] });
    const { stdout, stderr, exitCode } = await run(['trigger', 'redeem.failed'], service);
    expect(stdout).toContain('nothing listens there (ECONNREFUSED)');
    expect(stderr).toContain('Check that it is started, and the port.');
    expect(exitCode).toBe(3);
  });

  test('trigger is exit 3 when the sandbox ends before its attempt', async () => {
    let arrived = () => {};
    const held = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    await using site = await serve(() => arrived());
    const service = await startService({ endpoints: [{ url: site.url }] });
    const command = start(['trigger', 'redeem.failed', '--timeout', '10m'], service);
    await held;
    await service.sandbox.close();
    const { stderr, exitCode } = await command.ended;
    expect(stderr).toMatch(/^stablehooks: http\S+ (stopped to report what it delivers|cannot be reached)/);
    expect(exitCode).toBe(3);
  });

  test('trigger through the sandbox is stopped by Ctrl-C, and says how many events were sent', async () => {
    let arrived = () => {};
    const held = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    await using site = await serve(() => arrived());
    await using service = await startService({ endpoints: [{ url: site.url }] });
    const command = start(['trigger', 'redeem.failed', '--timeout', '10m'], service);
    await held;
    command.interrupt();
    const { stderr, exitCode } = await command.ended;
    expect(stderr).toContain('0 of 1 sent');
    expect(exitCode).toBe(130);
  });
});
