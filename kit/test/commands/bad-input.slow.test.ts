import { mkdir, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';
import { findClosedUrl, serve } from '../http-server.js';
import { startService, TOKEN } from '../service.js';
import { openSqlite } from '../sqlite-file.js';

const TO = '--to http://127.0.0.1:9/hooks';
const WITH_PASSWORD = `http://user:${TOKEN}@127.0.0.1:9/hooks`;
const TRIGGER = `trigger transfer.settled ${TO}`;

/** A command line, as a list if a word has a space or is empty, and the line that it prints. */
const WRONG_USE: readonly (readonly [typed: string | readonly string[], says: RegExp])[] = [
  ['evnts list', /unknown command 'evnts' \(Did you mean events\?\)/],
  ['events lst', /unknown command 'lst' .*See `stablehooks events --help`/],
  ['verify', /required option '--body <file>' not specified\. See `stablehooks verify --help`/],
  ['verify --body x --signatur x', /required option '--signature <value>' not specified/],
  ['verify --body list.json --signature x --header X-A', /unknown option '--header'/],
  ['trigger redeem.failed --secret-file list.json', /--secret-file has no effect without --to/],
  [`${TRIGGER} --base-url http://127.0.0.1:9`, /--base-url has no effect with --to/],
  [`${TRIGGER} --set payload.amount.value=1`, /payload\.amount is not an object\. Set the whole value/],
  [`${TRIGGER} --set payload:=[]`, /a payload must be a JSON object/],
  ['events list --since 1h --until 2h', /--since must not be later than --until/],
  [`events replay evt_1 --all ${TO}`, /--all has no effect when you pass ids/],
  ['events list --type a,,b', /Pass a name, or several names separated by commas/],
  [`trigger zzz ${TO}`, /The event type zzz is unknown\. The known types are accept\.confirmed, /],
  ['listen --to http://x/ --type redeem.faild', /The known types are accept\.confirmed, /],
  ['listen --to http://x/ --interval 2', /Pass a duration as a number/],
  [`catch-up ${TO} --inbox no/app.db`, /the folder no does not exist/],
  [`catch-up ${TO} --inbox app.db --limit 30000`, /Pass --max-limit 30000 as well/],
  ['reconcile --ledger empty --inbox app.db --since 1d --limit 9 --max-limit 8', /--limit 9 exceeds/],
  ['inbox requeue --inbox app.db', /Pass the ids of the events/],
  [`inbox run --inbox app.db ${TO} --state dead evt_1`, /Select events by id or with flags, not both/],
  ['inbox requeue --inbox app.db --state done', /Allowed choices are failed, dead/],
  ['inbox list --inbox app.db --since 1h --until 2h', /--since must be earlier than --until/],
  [['inbox', 'requeue', '--inbox', 'app.db', '--type', ''], /--type is empty\. If it comes from a variable/],
  ['inbox discard evt_1 --inbox app.db --by ada', /--reason <text>/],
  ['inbox import --inbox app.db --ids empty', /--ids empty: the file contains no ids/],
  ['inbox import --inbox app.db --ids list.json', /--ids list\.json, line 1: expected exactly one id/],
  ['help evnts', /unknown command/],
  ['inbox prune --inbox app.db --older-than 30d', /cannot be restored\. Pass --yes/],
  ['listen --to http://x/ --interval 0s', /Pass a duration from 1ms to 24d/],
  ['verify --body list.json --signature x --other no-such', /--other no-such: the file does not exist/],
  ['verify --body no-such --signature x --other no-other', /--body no-such: the file does not exist/],
  ['verify --body - --signature x --other -', /already used for --body/],
  [`${TRIGGER} --secret-file latin1`, /--secret-file latin1: the file is not UTF-8\. /],
  ['events list --since yesterday', /Pass a time with an offset/],
  [`events replay ${TO}`, /Pass the ids of the events to replay, --since TIME or --all/],
  ['trigger transfer.settled --to hooks', /--to must be a URL such as http:/],
  [`${TRIGGER} --payload no-such.json`, /--payload no-such\.json: the file does not exist; check the path/],
  [`${TRIGGER} --payload not.json`, /--payload not\.json: the file is not valid JSON\. Check it with `jq/],
  [`${TRIGGER} --payload list.json`, /--payload list\.json: a payload must be a JSON object/],
  [`${TRIGGER} --set amount=1`, /--set accepts payload\.NAME=STRING/],
  [`${TRIGGER} --set payload.n:=x`, /the value after := is not valid JSON/],
  [
    `${TRIGGER} --set payload.n:=12345678901234567890`,
    /would be sent as 12345678901234567000\. Write it as a str/,
  ],
  [
    `${TRIGGER} --set payload.n:={"a":[1,"9007199254740993",9007199254740993]}`,
    /number 9007199254740993 would/,
  ],
  [`${TRIGGER} --payload big.json`, /--payload big\.json: the number 1e999 would be sent as Infinity/],
  [
    'certify --app x --url http://127.0.0.1:9 --database postgres://x --inbox postgres://x --effects=SELECT(id)FROM"stablehooks"."events"',
    /--effects reads stablehooks\.events, /,
  ],
  [`${TRIGGER} --count 0`, /Pass a whole number of 1 or more/],
  [`${TRIGGER} --secret-file no-such`, /--secret-file no-such: the file does not exist/],
  [`${TRIGGER} --secret-file empty`, /--secret-file empty: the file is empty/],
  ['inbox list --inbox app.db --since 2999-01-01', /--since is in the future/],
  ['sandbox --port 0 --token-file spaced', /`token` must consist of visible ASCII/],
  ['sandbox --port 0 --secret-file spaced', /begins or ends with white space/],
  ['sandbox --port 0 --movement-time 99999d', /`movementMs` must be at most/],
  ['sandbox --port 0 --encoding base64', /--encoding has no effect without --to/],
  ['sandbox --port 0 --header X-Other', /--header has no effect without --to/],
  ['sandbox --port 0 --balance -1', /Pass a decimal amount of zero or more/],
  ['sandbox --port 0 --date-skew 5', /Pass a duration/],
  ['sandbox --port 0 --allow-host http://sandbox:4010', /Pass a host name without a scheme or port/],
  ['sandbox --drop 20%', /Pass a probability from 0 \(never\) to 1/],
  ['wallets create --agent a --chain arc --per-tx 1 --daily 2', /Allowed choices are tempo, solana, base/],
  ['wallets limits wal_1 --daily 5', /Pass --per-tx and --daily together/],
  ['inbox stats --inbox folder', /folder: this is a folder, but an inbox must be a file/],
  [['catch-up', ...TO.split(' '), '--inbox', ''], /--inbox is empty\. If it comes from a variable/],
  ['gaps acknowledge --inbox app.db --from 2026-01-01 --by ada', /--reason <text>/],
  [
    `gaps acknowledge --inbox app.db --from 2026-01-01 --by ${'a'.repeat(201)} --reason compared`,
    /Pass 1 to 200 characters/,
  ],
  ['inspect --inbox app.db --port x', /Pass a whole number/],
  [
    'listen --to http://x/ --base-url http://x/ --namespace payments',
    /--namespace has no effect without --inbox\. Pass both\./,
  ],
  [`${TRIGGER} --secret ${TOKEN}`, /A secret passed as a flag is visible in the process list/],
  [`events list --token ${TOKEN}`, /A token passed as a flag is visible in the process list/],
  [`events list --token=${TOKEN}`, /A token passed as a flag is visible in the process list/],
  [`events list --token=${TOKEN} --debug`, /A token passed as a flag is visible in the process list/],
  ['inbox stats --inbox env:INBOX', /env:INBOX: an inbox must be an SQLite file/],
  ['inbox stats --inbox mongodb://host/db', /This URL: an inbox must be an SQLite file/],
  ['inbox stats --inbox env:NO_FILE', /env:NO_FILE: this inbox file does not exist/],
  [`trigger redeem.failed --to ${WITH_PASSWORD}`, /--to contains a user name or password/],
  [[...TRIGGER.split(' '), '--header', 'bad header'], /--header must be a valid header name/],
  [[...TRIGGER.split(' '), '--prefix', 'sha256 \u{1F511}'], /--prefix must contain only ASCII characters/],
  [['doctor', 'http://127.0.0.1:9/', '--effects', ''], /--effects must be a URL/],
  ['doctor http://127.0.0.1:9/ --effects http://127.0.0.1:9/', /--effects must contain \{id\}/],
  [`events list --base-url ${WITH_PASSWORD}`, /--base-url contains a user name or password/],
];

describe.concurrent('wrong use', () => {
  let folder: Awaited<ReturnType<typeof makeFolder>>;
  beforeAll(async () => {
    folder = await makeFolder();
    await mkdir(folder.at('folder'));
    await writeFile(folder.at('not.json'), '{"amount": 10.50');
    await writeFile(folder.at('list.json'), '[]');
    await writeFile(folder.at('big.json'), '{"amount": "1e999", "n": 1e999}');
    await writeFile(folder.at('empty'), '\n');
    await writeFile(folder.at('spaced'), ' a secret ');
    (await openSqlite(folder.at('app.db')))[Symbol.dispose]();
    await writeFile(folder.at('latin1'), Buffer.from('whsec_ä', 'latin1'));
  });
  afterAll(() => folder[Symbol.asyncDispose]());

  test.for(WRONG_USE)('wrong use is exit 2 and one line: %j', async ([typed, says]) => {
    const env = {
      STABLEHOOKS_BASE_URL: 'http://127.0.0.1:9',
      STABLEHOOKS_TOKEN: TOKEN,
      INBOX: `mongodb://user:${TOKEN}@host/db`,
      NO_FILE: `${TOKEN}.db`,
    };
    const words = typeof typed === 'string' ? typed.split(' ') : typed;
    const { exitCode, stdout, stderr } = await run(words, { env, cwd: folder.path });
    expect(stderr).toMatch(says);
    expect(stderr).toMatch(/^stablehooks: [^\n]+\n$/);
    expect(stderr).not.toContain(TOKEN);
    expect(stdout).toBe('');
    expect(exitCode).toBe(2);
  });
});

test.for(['catch-up', 'listen'])(
  '%s refuses an inbox in memory, because its next run would send every event again',
  async (command) => {
    const env = {
      STABLEHOOKS_BASE_URL: 'http://127.0.0.1:9',
      STABLEHOOKS_TOKEN: TOKEN,
      IN_MEMORY: ':memory:',
    };
    for (const place of [':memory:', 'env:IN_MEMORY']) {
      const { exitCode, stdout, stderr } = await run([command, ...TO.split(' '), '--inbox', place], { env });
      expect(stderr).toContain(`${place}: this is not a file`);
      expect(stdout).toBe('');
      expect(exitCode).toBe(2);
    }
  },
);

describe.concurrent('the service', () => {
  test('a service that cannot be reached is exit 3', async () => {
    const env = { STABLEHOOKS_BASE_URL: await findClosedUrl(), STABLEHOOKS_TOKEN: TOKEN };
    for (const args of [
      ['events', 'list'],
      ['trigger', 'redeem.failed'],
    ]) {
      const { exitCode, stderr } = await run(args, { env });
      expect(stderr).toMatch(/^stablehooks: [^\n]*(Nothing is listening there|cannot be reached)[^\n]*\n$/);
      expect(exitCode).toBe(3);
    }
  });

  test('a service that refuses the token is exit 2, and the token is not printed', async () => {
    await using service = await startService();
    const env = { ...service.env, STABLEHOOKS_TOKEN: 'tok_of_yesterday' };
    for (const args of [
      ['events', 'list'],
      ['trigger', 'redeem.failed'],
    ]) {
      const { exitCode, stderr } = await run(args, { env });
      expect(stderr).toMatch(/^stablehooks: The \w+ rejected the token[^\n]*STABLEHOOKS_TOKEN[^\n]*\n$/);
      expect(stderr).not.toContain('tok_of_yesterday');
      expect(exitCode).toBe(2);
    }
  });

  test('a service that fails, and a server that is not the service, are exit 3', async () => {
    await using service = await startService({ faults: { apiServerError: 1 } });
    const failing = await run(['events', 'list'], service);
    expect(failing.stderr).toMatch(/^stablehooks: The service responded with 500: [^\n]+\n$/);
    await using site = await serve((_, response) => void response.end('<!doctype html><p>Hello'));
    const another = await run(['events', 'list'], {
      env: { ...service.env, STABLEHOOKS_BASE_URL: site.url },
    });
    expect(another.stderr).toMatch(/^stablehooks: [^\n]+ base URL [^\n]+ \(ERR_API_RESPONSE\)\n$/);
    expect([failing.exitCode, another.exitCode]).toEqual([3, 3]);
  });

  test('a service that redirects is exit 2, and the setting to change is named', async () => {
    await using server = await serve((_, response) => {
      response.writeHead(302, { location: '/login' }).end();
    });
    const env = { STABLEHOOKS_BASE_URL: server.url, STABLEHOOKS_TOKEN: TOKEN };
    const { exitCode, stderr } = await run(['events', 'list'], { env });
    expect(stderr).toContain('Set the base URL');
    expect(exitCode).toBe(2);
  });

  test('a missing base URL, a missing token and a padded token are exit 2', async () => {
    const noUrl = await run(['events', 'list']);
    expect(noUrl.stderr).toContain('Set STABLEHOOKS_BASE_URL, or pass --base-url URL');
    const noToken = await run(['events', 'list', '--base-url', 'http://127.0.0.1:9']);
    expect(noToken.stderr).toContain('Set STABLEHOOKS_TOKEN, or pass --token-file FILE');
    const padded = { STABLEHOOKS_BASE_URL: 'http://127.0.0.1:9', STABLEHOOKS_TOKEN: `${TOKEN} \n` };
    const badToken = await run(['events', 'list'], { env: padded });
    expect(badToken.stderr).toContain('The access token contains a space, a line break');
    expect(badToken.stderr).not.toContain(TOKEN);
    expect([noUrl.exitCode, noToken.exitCode, badToken.exitCode]).toEqual([2, 2, 2]);
  });
});

describe.concurrent('settings', () => {
  test('the inbox comes from STABLEHOOKS_INBOX, or else from DATABASE_URL, of the environment or the file', async () => {
    await using folder = await makeFolder();
    for (const name of ['one.db', 'two.db']) {
      using inbox = await openSqlite(folder.at(name));
      await inbox.count();
    }
    await writeFile(folder.at('.env'), `STABLEHOOKS_INBOX=${folder.at('one.db')}\nDATABASE_URL=missing.db\n`);
    const stats = (env: Record<string, string>, ...flags: readonly string[]) =>
      run(['inbox', 'stats', ...flags], { env });
    expect((await stats({}, '--env-file', folder.at('.env'))).exitCode).toBe(0);
    expect((await stats({ DATABASE_URL: folder.at('two.db') })).exitCode).toBe(0);
    expect((await stats({})).stderr).toBe(
      'stablehooks: No inbox is specified. Pass --inbox, or set STABLEHOOKS_INBOX or DATABASE_URL.\n',
    );
  });

  test.for([
    [
      ['inbox', 'stats'],
      { STABLEHOOKS_INBOX: '', DATABASE_URL: 'app.db' },
      'env:STABLEHOOKS_INBOX: this environment variable is empty.',
    ],
    [
      ['events', 'list'],
      { STABLEHOOKS_BASE_URL: '' },
      'STABLEHOOKS_BASE_URL is empty. Set it, or pass --base-url URL.',
    ],
    [
      ['events', 'list'],
      { STABLEHOOKS_BASE_URL: 'http://127.0.0.1:9', STABLEHOOKS_TOKEN: '' },
      'STABLEHOOKS_TOKEN is empty. Set it, or pass --token-file FILE.',
    ],
    [
      ['sign', '--body', '-'],
      { STABLEHOOKS_SECRET: '' },
      'STABLEHOOKS_SECRET is empty. Set it, or pass --secret-file FILE.',
    ],
  ] as const)('an empty variable is named as empty: %j %j', async ([words, env, says]) => {
    const { stderr, exitCode } = await run([...words], { env, input: '{}' });
    expect(stderr).toBe(`stablehooks: ${says}\n`);
    expect(exitCode).toBe(2);
  });

  test('settings come from flags before the environment', async () => {
    await using service = await startService();
    await using folder = await makeFolder();
    await writeFile(folder.at('token'), `${TOKEN}\n`);
    const env = { STABLEHOOKS_BASE_URL: 'http://127.0.0.1:9', STABLEHOOKS_TOKEN: 'another' };
    const flags = ['--base-url', `${service.url}/`, '--token-file', folder.at('token')];
    const { stdout, exitCode } = await run(['events', 'list', ...flags], { env });
    expect(stdout).toBe('No events.\n');
    expect(exitCode).toBe(0);
  });

  test('--env-file reads variables, and what is in the environment takes precedence', async () => {
    await using service = await startService();
    await using folder = await makeFolder();
    const file = `STABLEHOOKS_BASE_URL=${service.url}\nSTABLEHOOKS_TOKEN=another\n`;
    await writeFile(folder.at('.env'), file);
    const args = ['events', 'list', '--env-file', '.env'];
    const refused = await run(args, { cwd: folder.path });
    expect(refused.stderr).toContain('rejected the token');
    expect(refused.exitCode).toBe(2);
    const ended = await run(args, { cwd: folder.path, env: { STABLEHOOKS_TOKEN: TOKEN } });
    const stderr =
      'STABLEHOOKS_TOKEN in .env is ignored because the environment already sets a different value.\n';
    expect(ended).toEqual({ exitCode: 0, stdout: 'No events.\n', stderr });
  });

  test('--env-file whose names are misspelt says so', async () => {
    await using folder = await makeFolder();
    await writeFile(folder.at('.env'), 'STABLEHOOKS_INBX=app.db\n');
    const { stderr, exitCode } = await run(['status', '--env-file', '.env'], { cwd: folder.path });
    expect(stderr).toMatch(
      /^\.env sets none of STABLEHOOKS_BASE_URL, .* Check the variable names\.\n.*No inbox is specified/,
    );
    expect(exitCode).toBe(2);
  });

  test('--env-file with a missing file is an error that names it, and nothing runs', async () => {
    await using service = await startService();
    await using folder = await makeFolder();
    const args = ['events', 'list', '--env-file', 'missing.env'];
    const { exitCode, stdout, stderr } = await run(args, { env: service.env, cwd: folder.path });
    expect(stderr).toContain('missing.env');
    expect(stdout).toBe('');
    // Node 20 reads the file itself before the command runs, and exits with 9.
    expect([2, 9]).toContain(exitCode);
  });

  test.for([
    ['trigger', 'transfer.settled', '--to', 'http://127.0.0.1:1/'],
    ['doctor', 'http://127.0.0.1:1/'],
    ['events', 'replay', '--all', '--to', 'http://127.0.0.1:1/'],
    ['sandbox', '--port', '0'],
    ['sign', '--body', '-'],
  ])('stablehooks %j names STABLEHOOKS_SECRET when that has white space around it', async (args) => {
    const service = { STABLEHOOKS_BASE_URL: 'http://127.0.0.1:1', STABLEHOOKS_TOKEN: 'tok' };
    const { stdout, stderr, exitCode } = await run(args, {
      env: { ...service, STABLEHOOKS_SECRET: 'whsec_\n' },
    });
    expect([stdout, exitCode]).toEqual(['', 2]);
    expect(stderr).toContain('STABLEHOOKS_SECRET: the webhook secret begins or ends with white space');
  });

  test('--debug prints the stack, and not the secret', async () => {
    const { stderr } = await run(`${TRIGGER} --payload no-such.json --debug`.split(' '));
    expect(stderr).toMatch(/\n {4}at /);
    expect(stderr).not.toContain(SECRET);
  });

  test.for([
    'redis://:pa/ss#SECRETPW@127.0.0.1:6379/0',
    'postgresql://app:12/SECRETPW@127.0.0.1:5432/db',
    'postgres://app:%E0SECRETPW@127.0.0.1:1/db',
  ])('the URL %s of an inbox is exit 2, and nothing of it is printed, also with --debug', async (url) => {
    const env = { DATABASE_URL: url };
    const expected = {
      stdout: '',
      stderr: expect.stringMatching(/^stablehooks: env:DATABASE_URL cannot be parsed\. .*encodeURIComponent/),
      exitCode: 2,
    };
    const ended = await run(['inbox', 'stats', '--inbox', 'env:DATABASE_URL', '--debug'], { env });
    expect(ended).toEqual(expected);
    expect(ended.stderr).not.toMatch(/SECRET|pa\/ss|127\.0\.0\.1/);
    const typed = await run(['inbox', 'stats', '--inbox', url, '--debug']);
    expect(typed.stderr).toMatch(/^stablehooks: (This URL cannot be parsed|A password in the URL)/);
    expect(typed.stderr).not.toMatch(/SECRET|pa\/ss|127\.0\.0\.1/);
    expect(typed.exitCode).toBe(2);
  });

  test('--debug prints nothing of the URL of an inbox that cannot be reached', async () => {
    const closed = new URL(await findClosedUrl());
    const env = { DATABASE_URL: `redis://:SECRETPW@${closed.host}/0` };
    const { stderr, exitCode } = await run(['inbox', 'stats', '--inbox', 'env:DATABASE_URL', '--debug'], {
      env,
    });
    expect(stderr).toContain('ECONNREFUSED');
    expect(stderr).toMatch(/\n {4}at /);
    expect(stderr).not.toContain('SECRETPW');
    expect(exitCode).toBe(3);
  });

  test('output to a full disk is exit 3 and one line', async () => {
    await using service = await startService();
    await using folder = await makeFolder();
    for (let index = 0; index < 40; index++) service.sandbox.emit('transfer.settled');
    const { stderr, exitCode } = await run(['events', 'list', '--json', '--limit', '100'], {
      env: service.env,
      cwd: folder.path,
      outputFile: '/dev/full',
    });
    expect(stderr).toMatch(/^stablehooks: The disk is full[^\n]*\(ENOSPC\)\n$/);
    expect(exitCode).toBe(3);
  });
});
