/** Refusals behind nginx, which speaks HTTP/1.0 to its upstreams and closes each connection. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../services/free-port.js';
import { SERVERS } from './frameworks.js';
import { listen } from './listening.js';
import { createObserved } from './observed.js';

async function proxyTo(upstream: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-nginx-'));
  const port = await freePort();
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const config = `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log; events {}
    http { access_log off; ${paths.join(' ')} client_max_body_size 10m;
      server { listen 127.0.0.1:${port}; location / { proxy_pass ${new URL(upstream).origin}; } } }`;
  await writeFile(join(folder, 'nginx.conf'), config);
  const nginx = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'ignore' });
  onTestFinished(async () => {
    nginx.kill();
    await once(nginx, 'close');
    await rm(folder, { recursive: true });
  });
  await expect.poll(() => canConnect(port), { timeout: 10_000 }).toBe(true);
  return `http://127.0.0.1:${port}/hooks`;
}

async function canConnect(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const [event] = await Promise.race(
    ['connect', 'error'].map(
      (name) => new Promise<[string]>((resolve) => socket.once(name, () => resolve([name]))),
    ),
  );
  socket.destroy();
  return event === 'connect';
}

test.each(SERVERS)('refusals of 900 kB by $name arrive behind nginx as they are', async ({ serve }) => {
  const { receiver } = createObserved({ maxBodyBytes: 500_000 });
  const { url, close } = await listen(await serve(receiver));
  onTestFinished(close);
  const proxied = await proxyTo(url);
  const post = async (signature: string) => {
    const headers = { 'content-type': 'application/json', 'x-service-signature': signature };
    const reply = await fetch(proxied, { method: 'POST', headers, body: Buffer.alloc(900_000) });
    await reply.arrayBuffer();
    return reply.status;
  };

  const statuses: number[] = [];
  for (const signature of ['', 'none', '0'.repeat(64)]) statuses.push(await post(signature));

  expect(statuses).toEqual([401, 401, 413]);
});
