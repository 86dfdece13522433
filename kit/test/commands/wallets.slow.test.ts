import { expect, test } from 'vitest';
import { run, start } from '../command.js';
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
  expect(stderr).toMatch(
    /^stablehooks: The service responded with 400: [^{\n]*perTx[^{\n]*\(ERR_API_STATUS\)\n$/,
  );
  expect(exitCode).toBe(2);
});

test('a wallet that is answered 408 or 429 is exit 3, because the same command can succeed later', async () => {
  for (const status of [408, 429]) {
    await using server = await serve((_, response) => void response.writeHead(status).end());
    const env = { STABLEHOOKS_BASE_URL: server.url, STABLEHOOKS_TOKEN: 'token' };
    const { stderr, exitCode } = await run([...CREATE, '--per-tx', '1', '--daily', '2'], { env });
    expect(stderr).toContain(`The service responded with ${status}`);
    expect(exitCode).toBe(3);
  }
});

test('a created wallet whose description is malformed is exit 3, with what the service answered', async () => {
  await using service = await startService({ faults: { apiMalformed: 1 } });
  const { stderr, exitCode } = await run([...CREATE, '--per-tx', '1', '--daily', '2'], service);
  const [wallet] = service.sandbox.wallets.list();
  expect(stderr).toContain(`(ERR_API_RESPONSE) response: "{\\"id\\":\\"${wallet?.id}\\"`);
  expect(exitCode).toBe(3);
});

const PAGES = [
  [200, /with an HTML page\. Check --base-url/],
  [404, /and an HTML page.*Check --base-url/],
  [502, /and an HTML page.*The service may have carried out the request/],
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
  expect(stderr).toContain('The service may have carried out the request. Check before you send it again.');
  expect(exitCode).toBe(3);
});

const WALLET = {
  ...{ id: 'wal_late', agentId: 'agent-7', address: '0xAbC', chain: 'base', balance: '0' },
  ...{ limits: { perTx: '1', daily: '2' }, allowlist: [] },
};

test.for([
  ['create', [...CREATE, '--per-tx', '1', '--daily', '2']],
  ['limits', ['wallets', 'limits', 'wal_late', '--per-tx', '1', '--daily', '2']],
] as const)(
  'wallets %s that is interrupted waits for the answer, and prints the wallet',
  async ([, args]) => {
    const asked = gate();
    const told = gate();
    await using server = await serve(async (_, response) => {
      asked.open();
      await told.opened;
      response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify(WALLET));
    });
    const env = { STABLEHOOKS_BASE_URL: server.url, STABLEHOOKS_TOKEN: 'token' };
    const command = start(args, { env });
    await asked.opened;
    command.interrupt();
    await command.printed('Finishing the current step. Press Ctrl-C again to stop immediately.\n');
    told.open();
    const { stdout, exitCode } = await command.ended;
    expect(stdout).toContain('wallet   wal_late\n');
    expect(exitCode).toBe(0);
  },
);

test('wallets create prints the wallet on stderr if stdout is full, and is exit 3', async () => {
  await using service = await startService();
  const { stderr, exitCode } = await run([...CREATE, '--per-tx', '1', '--daily', '2'], {
    ...service,
    outputFile: '/dev/full',
  });
  const [wallet] = service.sandbox.wallets.list();
  expect(stderr).toContain(`cannot be written:\nwallet   ${wallet?.id}\n`);
  expect(stderr).toContain('stablehooks: The disk is full.');
  expect(exitCode).toBe(3);
});

/** Answers wait for it until it is opened. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

const ANSWER = {
  ...{ id: 'wal_1', agentId: 'agent-7', address: '0x1', chain: 'base', balance: '0' },
  limits: { perTx: '1', daily: '2.50' },
  allowlist: ['b', 'a'],
};

test.for([
  ['the wallet that was asked for', {}, 0],
  ['the same limits with other zeros', { limits: { perTx: '1.00', daily: '2.5' } }, 0],
  ['another agent', { agentId: 'agent-8' }, 1],
  ['another chain', { chain: 'solana' }, 1],
  ['a higher limit of one send', { limits: { perTx: '10', daily: '2.50' } }, 1],
  ['another limit of a day', { limits: { perTx: '1', daily: '25' } }, 1],
  ['another allowlist', { allowlist: ['a'] }, 1],
] as const)('wallets create compares the answer with what was asked for: %s', async ([, other, expected]) => {
  await using server = await serve((_, response) => {
    response
      .writeHead(201, { 'content-type': 'application/json' })
      .end(JSON.stringify({ ...ANSWER, ...other }));
  });
  const env = { STABLEHOOKS_BASE_URL: server.url, STABLEHOOKS_TOKEN: 'token' };
  const args = [...CREATE, '--per-tx', '1', '--daily', '2.50', '--allow', 'a', '--allow', 'b'];
  const { stdout, stderr, exitCode } = await run(args, { env });
  expect(stdout).toContain('wal_1');
  expect(exitCode, stderr).toBe(expected);
});

test('wallets limits is exit 1 when the service answers with another wallet', async () => {
  await using server = await serve((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(ANSWER));
  });
  const env = { STABLEHOOKS_BASE_URL: server.url, STABLEHOOKS_TOKEN: 'token' };
  const limits = ['--per-tx', '1', '--daily', '2.5'];
  const { stderr, exitCode } = await run(['wallets', 'limits', 'wal_2', ...limits], { env });
  expect(stderr).toContain('The service returned a different id than you requested.');
  expect(exitCode).toBe(1);
});
