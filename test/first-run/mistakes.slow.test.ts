/** Wiring mistakes, planted into the programs of the README: each leads to one line that names what to change. */
import { once } from 'node:events';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, onTestFinished, test } from 'vitest';
import { root } from '../project/source.js';
import { freePort } from '../services/free-port.js';
import { quickStart, reconcileJob } from './readme.js';
import { paste, type Running } from './terminal.js';

const SECRET = 'whsec_first_run';
/** In the payload of every delivery. */
const PAYLOAD = 'content-of-the-payload';
/** How long a program or a command may take, in ms. */
const TIMEOUT_MS = 60_000;

const express = quickStart('Express 4 and 5').program;
const fastify = quickStart('Fastify 5').program;
const fetching = quickStart('fetch: Hono, Workers, Deno, Bun, SvelteKit, Remix').program;
const job = reconcileJob().program;

/** Replaces a part of a program that must be in it. */
function plant(program: string, right: string, wrong: string): string {
  expect(program).toContain(right);
  return program.replace(right, wrong);
}

/** Puts lines above a part of a program. */
const plantAbove = (program: string, line: string, above: string) =>
  plant(program, line, `${above}\n${line}`);

/** A program that runs, and where it takes deliveries. */
interface Program extends Running {
  readonly url: string;
}

/** Starts a program in a folder where both packages are installed, as `server.mjs`. */
async function start(program: string, env: Readonly<Record<string, string>> = {}): Promise<Program> {
  const folder = await mkdtemp(join(tmpdir(), 'mistake-'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const port = String(await freePort());
  await writeFile(join(folder, 'server.mjs'), program.replaceAll('3000', port));
  const variables = Object.entries({ WEBHOOK_SECRET: SECRET, ...env }).map(
    ([name, value]) => `${name}='${value}'`,
  );
  const running = paste(`export ${variables.join(' ')}\nexec node server.mjs`, folder);
  onTestFinished(async () => {
    await running.stop();
    await rm(folder, { recursive: true });
  });
  return { ...running, url: `http://127.0.0.1:${port}/hooks` };
}

async function startListening(program: string): Promise<Program> {
  const running = await start(program);
  await running.printed(/Listening on /, AbortSignal.timeout(TIMEOUT_MS));
  return running;
}

/** Sends a signed event; returns the status and the code of the answer. */
async function deliver(
  url: string,
  { secret = SECRET, header = 'X-SERVICE-Signature', indent = 0 } = {},
): Promise<string> {
  const event = exampleEvent('transfer.settled', { payload: { note: PAYLOAD } });
  const bytes = new TextEncoder().encode(JSON.stringify(event, null, indent));
  const { method, headers, body } = await signedRequest(bytes, { secret, url, header });
  const reply = await fetch(url, { method, headers, body });
  const text = await reply.text();
  expect(text).not.toContain(PAYLOAD);
  return `${reply.status} ${/ERR_\w+/.exec(text)?.[0] ?? ''}`.trim();
}

/** Ends a program, or waits for its end, and returns the lines of this package: those of its logger and of what it threw. */
async function linesOf(running: Running, { stop = true } = {}): Promise<readonly string[]> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  // Written before the answer, and read after it.
  if (stop) {
    await running.printed(/^stablehooks: .*\n/m, timeout);
    await running.stop();
  }
  const { output } = await running.ended(timeout);
  for (const content of [SECRET, PAYLOAD]) expect(output).not.toContain(content);
  return output.split('\n').filter((line) => /^stablehooks: |^\w*Error: |Error \[ERR_/.test(line));
}

/** The fixes that `stablehooks doctor` prints for what failed. */
async function doctorFixes(url: string, secret = SECRET): Promise<readonly string[]> {
  const command = `STABLEHOOKS_SECRET='${secret}' node ${join(root, 'kit/dist/main.js')} doctor ${url} --type transfer.settled --json`;
  const running = paste(command, root);
  onTestFinished(running.stop);
  const { code, output } = await running.ended(AbortSignal.timeout(TIMEOUT_MS));
  expect(code).toBe(1);
  for (const content of [SECRET, PAYLOAD]) expect(output).not.toContain(content);
  const checks = output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as { readonly verdict?: string; readonly fix?: string });
  return [...new Set(checks.filter(({ verdict }) => verdict === 'fail').map(({ fix = '' }) => fix))];
}

/** A proxy that reads the JSON of a delivery and writes it anew. Returns its URL. */
async function startProxy(target: string, indent?: number): Promise<string> {
  const server = createServer(async (request, response) => {
    // The doctor cuts a body off half way.
    const text = await readText(request).catch(() => undefined);
    if (text === undefined) {
      response.destroy();
      return;
    }
    const body = text === '' ? undefined : JSON.stringify(JSON.parse(text), null, indent);
    const headers = Object.entries(request.headers).filter(
      ([name]) => !['host', 'connection', 'content-length', 'transfer-encoding'].includes(name),
    ) as [string, string][];
    const { method = 'GET' } = request;
    const reply = await fetch(target, { method, headers, ...(method === 'POST' && { body: body ?? '' }) });
    const type = reply.headers.get('content-type') ?? 'text/plain';
    response.writeHead(reply.status, { 'content-type': type }).end(await reply.text());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
}

describe('a mistake that a delivery shows is one line in the log', () => {
  const slow = plant(
    plantAbove(express, '  handlers: {', '  handlerTimeoutMs: 50,'),
    'console.log(event.id, event.payload, attempt, signal.aborted);',
    'await new Promise(() => undefined);',
  );

  test.each<{
    readonly mistake: string;
    readonly program: string;
    readonly sent?: Parameters<typeof deliver>[1];
    readonly answer: string;
    readonly line: RegExp;
  }>([
    {
      mistake: 'express.json() above the receiver',
      program: plantAbove(express, "app.post('/hooks'", 'app.use(express.json());'),
      answer: '500 ERR_BODY_UNAVAILABLE',
      line: /express\.json.*app\.post\('\/hooks', toExpressHandler\(receiver\)\); app\.use\(express\.json\(\)\);`\.$/,
    },
    {
      mistake: 'the secret of another endpoint',
      program: express,
      sent: { secret: 'whsec_another' },
      answer: '401 ERR_SIGNATURE_MISMATCH',
      line: /Check the secret/,
    },
    {
      mistake: 'a signature header of another name',
      program: express,
      sent: { header: 'X-Acme-Signature' },
      answer: '401 ERR_SIGNATURE_MISSING',
      line: /no X-SERVICE-Signature header\. Check the name in `signature\.header`/,
    },
    {
      mistake: 'an error of a handler that no retry can help, and that is not a PermanentError',
      program: plant(
        express,
        'console.log(event.id',
        "throw new Error('no such account');\nconsole.log(event.id",
      ),
      answer: '500 ERR_HANDLER_FAILED',
      line: /The event runs again; throw PermanentError if that cannot help\./,
    },
    {
      mistake: 'a handler that takes too long',
      program: slow,
      answer: '500 ERR_HANDLER_TIMEOUT',
      line: /still running after 50 ms\..*Pass `signal` to the calls that it waits for, raise handlerTimeoutMs, or use a queue\./,
    },
    {
      mistake: 'a secret function whose environment variable is not set',
      program: plant(express, 'process.env.WEBHOOK_SECRET ??', '() => process.env.WEBHOOK_SECRT ??'),
      answer: '500 ERR_CONFIG_INVALID',
      line: /`secret` must be a string that is not empty.*Check its environment variable\./,
    },
  ])('$mistake', async ({ program, sent, answer, line }) => {
    const running = await startListening(program);
    expect(await deliver(running.url, sent)).toBe(answer);
    expect(await linesOf(running)).toEqual([expect.stringMatching(line)]);
  });

  test('a proxy that serializes the JSON again', async () => {
    const running = await startListening(express);
    expect(await deliver(await startProxy(running.url), { indent: 1 })).toBe('401 ERR_SIGNATURE_MISMATCH');
    expect(await linesOf(running)).toEqual([expect.stringContaining('that nothing modifies the body')]);
  });

  test('a memory inbox behind a poller', async () => {
    const sandbox = createSandbox();
    onTestFinished(() => sandbox.close());
    const { url } = await sandbox.listen(0);
    sandbox.emit('transfer.settled', { note: PAYLOAD });
    const forgetful = plant(
      plant(job, "sqliteInbox(new Database('events.db'))", 'memoryInbox()'),
      'import { createReceiver }',
      'import { createReceiver, memoryInbox }',
    );
    const running = await start(forgetful, {
      STABLEHOOKS_BASE_URL: url,
      STABLEHOOKS_TOKEN: sandbox.token,
      STABLEHOOKS_SECRET: SECRET,
    });
    expect(await linesOf(running, { stop: false })).toEqual([
      expect.stringMatching(/not durable, and a poller uses it.*sqliteInbox, postgresInbox or redisInbox\./),
    ]);
  });

  test('a memory inbox in a cron route, which does not poll', async () => {
    const imports = "import { createPoller, toCronRoute } from 'stablehooks/catch-up';\n";
    const client = '{ events: { listWithProblems: () => ({ events: [], problems: [], size: 0 }) } }';
    const route = `const { GET } = toCronRoute(() => createPoller({ client: ${client}, receiver }), { secret: 'cron' });
      app.get('/hooks', (context) => GET(context.req.raw));`;
    const running = await startListening(imports + plantAbove(fetching, "app.post('/hooks'", route));
    const reply = await fetch(running.url, { headers: { authorization: 'Bearer cron' } });
    expect(`${reply.status} ${await reply.text()}`).toBe('500 {"code":"ERR_CONFIG_INVALID"}');
    expect(await linesOf(running)).toEqual([
      expect.stringMatching(
        /cron route did not poll.*not durable.*`inbox`.*: sqliteInbox, postgresInbox or redisInbox\./,
      ),
    ]);
  });
});

describe('a mistake that the start shows ends the program with one line', () => {
  const secret = 'process.env.WEBHOOK_SECRET ??';
  const registered = "app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });";
  const wrapped = registered.replace('toFastifyPlugin(receiver)', 'fastifyPlugin(toFastifyPlugin(receiver))');

  test.each<{ readonly mistake: string; readonly program: string; readonly line: RegExp }>([
    {
      mistake: 'a newline at the end of the secret',
      program: plant(express, secret, "process.env.WEBHOOK_SECRET + '\\n' ??").replace(" ?? ''", ''),
      line: /`secret` must be a string that is not empty, without white space around it/,
    },
    {
      mistake: 'an environment variable that is not set as the secret',
      program: plant(express, "process.env.WEBHOOK_SECRET ?? ''", 'process.env.WEBHOOK_SECRT'),
      line: /`secret` must be given: check the environment variable that it comes from\.$/,
    },
    {
      mistake: 'an environment variable that is not set, with an empty string in its place',
      program: plant(express, secret, 'process.env.WEBHOOK_SECRT ??'),
      line: /`secret` must be a string that is not empty.*Check its environment variable\.$/,
    },
    {
      mistake: 'a misspelt event type in JavaScript',
      program: plant(express, "'transfer.settled':", "'transfer.setled':"),
      line: /`handlers`: unknown option `transfer\.setled`\. The options are .*transfer\.settled/,
    },
    {
      mistake: 'a misspelt option',
      program: plantAbove(express, '  handlers: {', '  maxAttempt: 3,'),
      line: /createReceiver: unknown option `maxAttempt`\. The options are .*maxAttempts/,
    },
    {
      mistake: 'the Fastify plugin inside fastify-plugin, which takes its prefix and its parsers',
      program: `import fastifyPlugin from 'fastify-plugin';\n${plant(fastify, registered, wrapped)}`,
      line: /Register it unwrapped: `app\.register\(toFastifyPlugin\(receiver\), \{ prefix: '\/hooks' \}\)`\.$/,
    },
  ])('$mistake', async ({ program, line }) => {
    const running = await start(program);
    expect(await linesOf(running, { stop: false })).toEqual([expect.stringMatching(line)]);
    expect((await running.ended(AbortSignal.timeout(TIMEOUT_MS))).code).toBe(1);
  });
});

describe('stablehooks doctor names the fix of what the log cannot tell apart', () => {
  test('another secret', async () => {
    const { url } = await startListening(express);
    expect(await doctorFixes(url, 'whsec_another')).toEqual([
      expect.stringContaining('Set both sides to the same secret.'),
    ]);
  });

  test('a newline at the end of the secret of the other side', async () => {
    const program = plant(express, "process.env.WEBHOOK_SECRET ?? ''", `Buffer.from('${SECRET}\\n')`);
    const { url } = await startListening(program);
    expect(await doctorFixes(url)).toEqual([
      expect.stringMatching(/the other side has a newline at its end\. Set both to the same string\./),
    ]);
  });

  test('a signature header of another name', async () => {
    const { url } = await startListening(
      plantAbove(express, '  handlers: {', "  signature: { header: 'X-Signature' },"),
    );
    expect(await doctorFixes(url)).toEqual([
      expect.stringMatching(/reads the signature from x-signature.*Read the header that the service sends/),
    ]);
  });

  test('a proxy that serializes the JSON again, which only changes JSON that is written in another way', async () => {
    const { url } = await startListening(express);
    expect(await doctorFixes(await startProxy(url))).toEqual([
      expect.stringContaining('let proxies pass the body on byte for byte.'),
    ]);
  });

  test('a proxy that indents the JSON', async () => {
    const { url } = await startListening(express);
    expect(await doctorFixes(await startProxy(url, 2))).toEqual([
      expect.stringMatching(/JSON that is indented by 2 spaces\. Let proxies pass the body on byte for byte/),
    ]);
  });

  test('a Fastify plugin without its prefix', async () => {
    const { url } = await startListening(plant(fastify, ", { prefix: '/hooks' }", ''));
    expect(await deliver(url)).toBe('404');
    expect(await doctorFixes(url)).toEqual([
      expect.stringMatching(/Nothing accepts a POST at \/hooks\. An unsigned POST is answered at \/ /),
    ]);
  });
});
