import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { describe, expect, test } from 'vitest';
import { makeFolder, SECRET } from '../command.js';
import { type RunningServer, serve } from '../http-server.js';
import { type CertificateOptions, makeCertificate } from './certificate.js';
import { examine } from './examine.js';
import { createPlainReceiver } from './plain-receiver.js';

/** A right receiver with this certificate. */
async function serveTls(certificate: {
  readonly cert: string;
  readonly key: string;
}): Promise<RunningServer> {
  const receiver = createPlainReceiver(SECRET);
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
      'its certificate is for another host (ERR_TLS_CERT_ALTNAME_INVALID). Use a host name that the certificate covers.',
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
    await using server = await serve(createPlainReceiver(SECRET));
    const { exitCode, stderr } = await examine(server.url.replace('http:', 'https:'));
    expect(stderr).toMatch(/it does not speak TLS \(\w+\)\. Check the port\. If the port does not use TLS, /);
    expect(exitCode).toBe(3);
  });
});
