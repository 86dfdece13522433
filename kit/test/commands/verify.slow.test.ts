import { writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { sign } from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';

const BODY = Buffer.from('{"id":"evt_1","type":"transfer.settled","payload":{"note":"Zoë"}}');

async function verify(options: {
  readonly body?: Uint8Array;
  readonly signature?: string;
  readonly secret?: string;
  readonly flags?: readonly string[];
}) {
  const { body = BODY, secret = SECRET, flags = [] } = options;
  const signature = options.signature ?? (await sign(BODY, { secret: SECRET }));
  const ended = await run(['verify', '--body', '-', '--signature', signature, ...flags], {
    input: body,
    env: { STABLEHOOKS_SECRET: secret },
  });
  expect(ended.stdout + ended.stderr).not.toContain(SECRET);
  return ended;
}

const text = (change: (body: string) => string) => Buffer.from(change(BODY.toString()));

describe.concurrent('verify', () => {
  test('verify accepts the right signature in each encoding', async () => {
    for (const encoding of ['hex', 'base64', 'base64url'] as const) {
      const { exitCode, stdout } = await verify({
        signature: await sign(BODY, { secret: SECRET, encoding }),
      });
      expect(stdout).toBe('yes: the signature matches this body\n');
      expect(exitCode).toBe(0);
    }
  });

  test.for([
    ['a newline added', text((body) => `${body}\n`), 'a newline (LF) was added at its end'],
    ['gzip', gzipSync(BODY), 'it is compressed with gzip'],
  ] as const)('verify names what changed the body: %s', async ([, body, what]) => {
    const { exitCode, stdout } = await verify({ body });
    expect(stdout).toContain(`the body: ${what}\n  fix: `);
    expect(exitCode).toBe(1);
  });

  test.for([
    ['quoted', `"${SECRET}"`, 'it has quotes around it'],
    ['a line of .env', `WEBHOOK_SECRET=${SECRET}`, 'it starts with the name of its variable'],
  ] as const)('verify names what is wrong with the secret: %s', async ([, secret, what]) => {
    const { exitCode, stdout } = await verify({ secret });
    expect(stdout).toContain(`the secret: ${what}\n  fix: `);
    expect(exitCode).toBe(1);
  });

  test('verify names what is wrong with the signature', async () => {
    const hex = await sign(BODY, { secret: SECRET });
    const base64 = await sign(BODY, { secret: SECRET, encoding: 'base64' });
    const named = async (signature: string, ...flags: string[]) =>
      (await verify({ signature, flags })).stdout;
    expect(await named(`sha256=${hex}`)).toContain('it has a prefix');
    expect(await named(base64, '--encoding', 'hex')).toContain('its encoding is not hex');
  });

  test('verify names the other body to which a signature belongs', async () => {
    await using folder = await makeFolder();
    const other = Buffer.from('{"id":"evt_2"}');
    await writeFile(folder.at('other.json'), other);
    const signature = await sign(other, { secret: SECRET });
    const { stdout } = await verify({ signature, flags: ['--other', folder.at('other.json')] });
    expect(stdout).toContain('it belongs to another body:');
    expect(stdout).toContain('other.json');
  });

  test('verify says that no known change explains another secret', async () => {
    const { exitCode, stdout } = await verify({ secret: 'whsec_other_account' });
    expect(stdout).toContain('no known change explains it');
    expect(exitCode).toBe(1);
  });

  test('verify --json prints the verdict and the changes', async () => {
    const { stdout } = await verify({ body: gzipSync(BODY), flags: ['--json'] });
    expect(JSON.parse(stdout)).toMatchObject({ verdict: 'explained', changes: [{ part: 'body' }] });
  });

  test('verify reads the secret from a file, without the newline at its end', async () => {
    await using folder = await makeFolder();
    await writeFile(folder.at('secret'), `${SECRET}\n`);
    const { exitCode } = await verify({ secret: 'another', flags: ['--secret-file', folder.at('secret')] });
    expect(exitCode).toBe(0);
  });
});

describe.concurrent('sign', () => {
  test('sign prints the header that verify accepts', async () => {
    const { stdout, exitCode } = await run(['sign', '--body', '-', '--encoding', 'base64'], { input: BODY });
    expect(stdout).toBe(`X-SERVICE-Signature: ${await sign(BODY, { secret: SECRET, encoding: 'base64' })}\n`);
    expect(exitCode).toBe(0);
  });
});
