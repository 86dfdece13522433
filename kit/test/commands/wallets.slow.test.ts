import { expect, test } from 'vitest';
import { run } from '../command.js';
import { serve } from '../http-server.js';
import { startService } from '../service.js';

const CREATE = ['wallets', 'create', '--agent', 'agent-7', '--chain', 'base'];

test('wallets creates a wallet and changes its limits', async () => {
  await using service = await startService();
  const created = await run(
    [...CREATE, '--per-tx', '10.00', '--daily', '25.00', '--allow', '0xAbC'],
    service,
  );
  const [wallet] = service.sandbox.wallets.list();
  expect(created.stdout).toContain(`wallet   ${wallet?.id}\nagent    agent-7\n`);
  expect(created.stdout).toContain('limits   10.00 per transaction, 25.00 per day\nallowed  0xAbC\n');

  const change = ['wallets', 'limits', wallet?.id ?? '', '--per-tx', '5', '--daily', '6', '--json'];
  const changed = await run(change, service);
  expect(JSON.parse(changed.stdout)).toMatchObject({
    limits: { perTx: '5', daily: '6' },
    allowlist: ['0xAbC'],
  });
});

test('a wallet that the service refuses is exit 2 with the message of the service', async () => {
  await using service = await startService();
  const { stderr, exitCode } = await run([...CREATE, '--per-tx', 'ten', '--daily', '25.00'], service);
  expect(stderr).toMatch(/^stablehooks: The service answered 400: [^{\n]*perTx[^{\n]*\(ERR_API_STATUS\)\n$/);
  expect(exitCode).toBe(2);
});

test('a wallet that is answered 408 or 429 is exit 3, because the same command can succeed later', async () => {
  for (const status of [408, 429]) {
    await using server = await serve((_, response) => void response.writeHead(status).end());
    const env = { STABLEHOOKS_BASE_URL: server.url, STABLEHOOKS_TOKEN: 'token' };
    const { stderr, exitCode } = await run([...CREATE, '--per-tx', '1', '--daily', '2'], { env });
    expect(stderr).toContain(`The service answered ${status}`);
    expect(exitCode).toBe(3);
  }
});

test('a created wallet whose description is malformed is exit 3, with what the service answered', async () => {
  await using service = await startService({ faults: { apiMalformed: 1 } });
  const { stderr, exitCode } = await run([...CREATE, '--per-tx', '1', '--daily', '2'], service);
  const [wallet] = service.sandbox.wallets.list();
  expect(stderr).toContain(`(ERR_API_RESPONSE) "{\\"id\\":\\"${wallet?.id}\\"`);
  expect(exitCode).toBe(3);
});

test('wallets limits refuses one limit without the other', async () => {
  const { stderr, exitCode } = await run(['wallets', 'limits', 'wal_1', '--daily', '5']);
  expect(stderr).toContain('Pass --per-tx and --daily together');
  expect(exitCode).toBe(2);
});

test('wallets create names all flags that are missing', async () => {
  const { stderr, exitCode } = await run(['wallets', 'create', '--agent', 'agent-7']);
  expect(stderr).toMatch(
    /^stablehooks: --chain <name>, --per-tx <amount> and --daily <amount> are required\. See `stablehooks wallets create --help`\.\n$/,
  );
  expect(exitCode).toBe(2);
});

const PAGES = [
  [200, /This is not the service: check --base-url \(STABLEHOOKS_BASE_URL\)\./],
  [404, /This is not the service: check --base-url \(STABLEHOOKS_BASE_URL\)\./],
  [502, /as a proxy does when the service behind it is down\. It may have carried the request out/],
] as const;

test.for(PAGES)('a page answered with %i is explained', async ([status, says]) => {
  await using site = await serve(
    (_, response) =>
      void response.writeHead(status, { 'content-type': 'text/html' }).end('<!DOCTYPE html><p>Hello'),
  );
  const env = { STABLEHOOKS_BASE_URL: site.url, STABLEHOOKS_TOKEN: 'token' };
  const { stderr, exitCode } = await run([...CREATE, '--per-tx', '1', '--daily', '2'], { env });
  expect(stderr).toMatch(says);
  expect(stderr).not.toContain('<p>');
  expect(exitCode).not.toBe(0);
});

test('a wallet that may have been created is not advised to be created again', async () => {
  await using service = await startService({ faults: { apiReset: 1 } });
  const { stderr, exitCode } = await run([...CREATE, '--per-tx', '1', '--daily', '2'], service);
  expect(stderr).toContain('The service may have carried it out. Check before you send it again.');
  expect(exitCode).toBe(3);
});
