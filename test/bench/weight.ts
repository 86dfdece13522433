/** The size of the package for the edge: bundled, minified and compressed. */
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { progress } from './progress.js';

const here = fileURLToPath(new URL('.', import.meta.url));

export interface BundleResult {
  readonly name: string;
  readonly gzipBytes: number;
}

const BUNDLES: Readonly<Record<string, string>> = {
  'stablehooks + stablehooks/next': `export { createReceiver } from 'stablehooks'; export { toNextRoute } from 'stablehooks/next'`,
  'stablehooks verifySignature + parseEvent': `export { verifySignature, parseEvent } from 'stablehooks'`,
  stripe: `export { default } from 'stripe'`,
  '@octokit/webhooks': `export { Webhooks } from '@octokit/webhooks'`,
  svix: `export { Webhook } from 'svix'`,
  standardwebhooks: `export { Webhook } from 'standardwebhooks'`,
};

/** What Node has itself is left out. */
export async function measureBundles(): Promise<readonly BundleResult[]> {
  progress('Bundles');
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
        external: ['node:*', 'crypto'],
        write: false,
        logLevel: 'error',
      });
      return { name, gzipBytes: gzipSync(outputFiles[0]?.contents ?? '', { level: 9 }).length };
    }),
  );
}
