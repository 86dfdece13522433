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

  test('verify prints what changed the body, and its fix', async () => {
    const { exitCode, stdout } = await verify({ body: Buffer.from(`${BODY}\n`) });
    expect(stdout).toMatch(/the body: a newline.*\n {2}fix: /);
    expect(exitCode).toBe(1);
  });

  test('verify names what is wrong with the signature', async () => {
    const hex = await sign(BODY, { secret: SECRET });
    const base64 = await sign(BODY, { secret: SECRET, encoding: 'base64' });
    const named = async (signature: string, ...flags: string[]) =>
      (await verify({ signature, flags })).stdout;
    expect(await named(`X-SERVICE-Signature: ${hex}`)).toContain('it starts with the name of its header');
    expect(await named(`sha256=${hex}`)).toContain('it has a prefix');
    expect(await named(encodeURIComponent(base64))).toContain('it is percent-encoded');
    expect(await named(base64, '--encoding', 'hex')).toContain('its encoding is not hex');
    expect(await named(Buffer.from(hex).toString('base64'))).toContain(
      'it is the base64 encoding of the hex digits',
    );
    expect(await named('not a signature')).toContain('neither 64 hex digits');
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
    expect(stdout).toContain('no known change explains why');
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
