/** Receivers that are observed by `openTelemetry()` and record in memory. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import Database from 'libsql';
import { createReceiver, type Layer, type ReceiverOptions } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { afterAll, beforeAll } from 'vitest';
import { secret } from '../receiver/delivery.js';
import { type Recorded, recordTelemetry } from './record-telemetry.js';

export const silent = { warn: () => undefined, error: () => undefined };

/** Starts the context manager of an SDK for the tests of a file. Returns what makes inboxes in files. */
export function withSdk() {
  let folder = '';
  let files = 0;
  beforeAll(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    folder = mkdtempSync(join(tmpdir(), 'telemetry-'));
  });
  afterAll(() => {
    context.disable();
    rmSync(folder, { recursive: true });
  });
  return (options?: Parameters<typeof sqliteInbox>[1]) => {
    files += 1;
    return sqliteInbox(new Database(join(folder, `${files}.db`)), options);
  };
}

/** A receiver whose layer records; receivers can share both. */
export function observed(
  options: Partial<ReceiverOptions> = {},
  { layer, ...recorded }: Recorded & { readonly layer?: Layer } = recordTelemetry(),
) {
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': async () => undefined },
    use: [layer ?? openTelemetry(recorded.providers)],
    logger: silent,
    ...options,
  });
  return { receiver, ...recorded };
}

export const clientOf = (elements: readonly unknown[]) =>
  ({
    events: {
      list: async () => [],
      listWithProblems: async () => ({
        events: elements,
        problems: [],
        size: elements.length,
        servedAt: null,
      }),
    },
  }) as never;
