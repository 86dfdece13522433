import { parseEnv } from 'node:util';
import { describe, expect, test } from 'vitest';
import { run, SECRET, start } from '../command.js';
import { pasted, startEndpoint, startService } from '../service.js';

/** Without what the tests set, so that the sandbox makes up its own. */
const BARE = { STABLEHOOKS_SECRET: undefined };

describe.concurrent('sandbox', () => {
  test('sandbox prints settings that work when they are pasted, then one line for each event and attempt', async () => {
    await using endpoint = await startEndpoint();
    const command = start(['sandbox', '--port', '0', '--to', endpoint.url], {});
    const env = pasted(await command.printed('Press Ctrl-C to stop.'));
    expect(Object.keys(env)).toEqual(['STABLEHOOKS_BASE_URL', 'STABLEHOOKS_TOKEN']);
    const fired = await run(['trigger', 'accept.confirmed'], { env });
    expect(fired.stdout).toContain('200 handled');
    await command.printed(/event\.fired {2}accept\.confirmed {2}evt_\w+\n/);
    const output = await command.printed(/attempt 1 {2}evt_\w+ {2}200 handled {2}\d+ ms\n/);
    expect(output).toContain(`Events go to ${endpoint.url}\n`);
    command.interrupt();
    const { stdout, stderr, exitCode } = await command.ended;
    // The secret came from the environment: it is there already.
    expect(stdout + stderr).not.toContain(SECRET);
    expect(exitCode).toBe(130);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  test('sandbox generates a token and a secret, and injects the faults of its flags', async () => {
    await using endpoint = await startEndpoint();
    const args = ['sandbox', '--port', '0', '--seed', '7', '--to', endpoint.url, '--corrupt-signature', '1'];
    const command = start(args, { env: BARE });
    const output = await command.printed('Press Ctrl-C to stop.');
    expect(output).toContain('--seed 7 repeats this run with the same ids.');
    expect(output).toContain('With --seed, event ids repeat from run to run');
    const env = pasted(output);
    expect(Object.keys(env)).toContain('STABLEHOOKS_SECRET');
    // The printed lines are a file that Node, Next and the programs of `init` read.
    expect(parseEnv(/^export [\s\S]*?\n\n/m.exec(output)?.[0] ?? '')).toEqual(env);
    const fired = await run(['trigger', 'accept.confirmed'], { env });
    expect(fired.stdout).toContain('401 ERR_SIGNATURE_MISMATCH');
    expect(fired.exitCode).toBe(1);
    await command.printed(' ms  faults: corruptSignature\n');
    command.interrupt();
    await command.ended;
  });

  test('sandbox without --to says that events are listed only', async () => {
    const command = start(['sandbox', '--port', '0']);
    expect(await command.printed('Press Ctrl-C to stop.')).toContain('Events are listed but not delivered');
    command.interrupt();
    await command.ended;
  });

  test.for([
    [['--list-cap', '0'], /Pass a whole number of 1 or more/],
    [['--list-lag', '999999999999d'], /listLagMs` must be at most/],
  ] as const)('sandbox refuses an invalid setting with exit 2: %j', async ([flags, says]) => {
    const { stderr, exitCode } = await run(['sandbox', '--port', '0', ...flags]);
    expect(stderr).toMatch(says);
    expect(exitCode).toBe(2);
  });

  test('sandbox says that a port is taken', async () => {
    await using service = await startService();
    const { stderr, exitCode } = await run(['sandbox', '--port', new URL(service.url).port]);
    expect(stderr).toContain(
      'The port is in use. Choose another one with --port, or pass 0 to use any free port. (EADDRINUSE)',
    );
    expect(exitCode).toBe(2);
  });
});
