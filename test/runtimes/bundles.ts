import { loadEsbuild } from './servers.js';

const APP = `
  import { createReceiver } from 'stablehooks';
  import { toFetchHandler } from 'stablehooks/fetch';
  import { durableObjectInbox } from 'stablehooks/inboxes/durable-object';
  const inbox = () => durableObjectInbox(globalThis.storage);
  export const fetch = toFetchHandler(createReceiver({ secret: 'whsec', handlers: {}, inbox }));`;

const TARGETS = [['workerd'], ['edge-light'], ['browser']] as const;

/** Bundles the fetch adapter and the inbox of Durable Objects for edge runtimes and browsers. Returns what a bundle must not contain and does. */
export async function assertBundles(folder: string): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const conditions of TARGETS) {
    // esbuild fails when the platform cannot resolve an import.
    const { metafile } = await loadEsbuild(folder).build({
      stdin: { contents: APP, resolveDir: folder },
      bundle: true,
      format: 'esm',
      platform: 'neutral',
      conditions,
      external: ['node:*'],
      metafile: true,
      write: false,
      logLevel: 'error',
    });
    for (const [input, { imports }] of Object.entries(metafile.inputs)) {
      const foreign = /node_modules\/(?!stablehooks\/)|hmac-node|polyfill/.test(input);
      if (foreign) failures.push(`${conditions}: ${input} is in the bundle`);
      for (const { path } of imports) {
        if (path.startsWith('node:')) failures.push(`${conditions}: ${input} imports ${path}`);
      }
    }
    if (!Object.keys(metafile.inputs).some((input) => input.includes('hmac-web'))) {
      failures.push(`${conditions}: WebCrypto is not in the bundle`);
    }
  }
  return failures;
}
