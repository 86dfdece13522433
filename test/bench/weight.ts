/** What the package weighs: bundled, minified and compressed, and the time that its import takes. */
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { run } from '../child.js';
import { median } from './measurement.js';

const here = fileURLToPath(new URL('.', import.meta.url));

/** A bundle of what an app imports. */
export interface BundleResult {
  readonly name: string;
  readonly gzipBytes: number;
}

/** How long a fresh process takes to import, beyond what it takes to start. */
export interface ImportResult {
  readonly name: string;
  readonly p50Ms: number;
  /** Of zod/mini alone. */
  readonly ratio: number;
}

const BUNDLES: Readonly<Record<string, string>> = {
  'stablehooks + stablehooks/next': `export { createReceiver } from 'stablehooks'; export { toNextRoute } from 'stablehooks/next'`,
  'stablehooks verifySignature + parseEvent': `export { verifySignature, parseEvent } from 'stablehooks'`,
  stripe: `export { default } from 'stripe'`,
  '@octokit/webhooks': `export { Webhooks } from '@octokit/webhooks'`,
  svix: `export { Webhook } from 'svix'`,
  standardwebhooks: `export { Webhook } from 'standardwebhooks'`,
};

const IMPORTS = [
  'zod/mini',
  'stablehooks',
  'stablehooks/express',
  'stripe',
  '@octokit/webhooks',
  'svix',
  'standardwebhooks',
];

/** zod is left out, as apps have it; so is Node's own. */
export async function measureBundles(): Promise<readonly BundleResult[]> {
  return Promise.all(
    Object.entries(BUNDLES).map(async ([name, contents]) => {
      const { outputFiles } = await build({
        stdin: { contents, resolveDir: here },
        bundle: true,
        minify: true,
        format: 'esm',
        platform: 'browser',
        conditions: ['edge-light'],
        define: { 'process.env.NEXT_RUNTIME': '"edge"' },
        external: ['zod', 'zod/*', 'node:*', 'crypto'],
        write: false,
        logLevel: 'error',
      });
      return { name, gzipBytes: gzipSync(outputFiles[0]?.contents ?? '', { level: 9 }).length };
    }),
  );
}

export async function measureImports({
  rounds,
}: {
  readonly rounds: number;
}): Promise<readonly ImportResult[]> {
  const took = new Map<string, number[]>(IMPORTS.map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const name of IMPORTS) {
      const program = `const start = performance.now(); await import('${name}'); console.log(performance.now() - start)`;
      const printed = await run({ args: ['--input-type=module', '--eval', program], cwd: here });
      if (round > 0) took.get(name)?.push(Number(printed));
    }
  }
  const p50s = IMPORTS.map((name) => median(took.get(name) ?? []));
  return IMPORTS.map((name, index) => {
    const p50Ms = p50s[index] ?? Number.NaN;
    return { name, p50Ms, ratio: p50Ms / (p50s[0] ?? Number.NaN) };
  });
}
