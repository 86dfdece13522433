/** What a real receiver with `openTelemetry()` exports through the real Prometheus exporter. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import Database from 'libsql';
import { createReceiver, PermanentError, SIGNATURE_HEADER, sign, type WebhookRequest } from 'stablehooks';
import { createPoller, type PollerClient } from 'stablehooks/catch-up';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { exampleEvent } from 'stablehooks/testing';

/** For each exported series name, the labels and the values that they had. */
export type ExportedMetrics = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

const secrets = ['whsec_new', 'whsec_old'] as const;
const silent = { warn: () => undefined, error: () => undefined };

/** An app of one process with a metrics endpoint, as Prometheus scrapes it. */
export async function startApp() {
  const exporter = new PrometheusExporter({ preventServerStart: true });
  const provider = new MeterProvider({ readers: [exporter] });
  const server = createServer((request, response) => exporter.getMetricsRequestHandler(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  const database = new Database(':memory:');
  let listed: readonly unknown[] = [];
  let answers = true;
  const client: PollerClient = {
    events: {
      async listWithProblems() {
        if (!answers) throw new Error('503');
        return { events: listed as never, problems: [], size: listed.length };
      },
    },
  };
  const receiver = createReceiver({
    secret: secrets,
    inbox: sqliteInbox(database),
    logger: silent,
    use: [openTelemetry({ meterProvider: provider })],
    handlers: {
      'transfer.settled': () => undefined,
      'transfer.failed': () => {
        throw new PermanentError('The account is closed.');
      },
      'redeem.failed': () => {
        throw new Error('The ledger is down.');
      },
    },
  });
  const pollerOf = () => createPoller({ client, receiver, logger: silent, since: new Date(0) });
  const poller = pollerOf();

  return {
    receiver,
    async deliver(event: unknown, secret: string = secrets[0]) {
      const body = new TextEncoder().encode(JSON.stringify(event));
      const signature = await sign(body, { secret });
      const request: WebhookRequest = {
        method: 'POST',
        header: (name) => (name.toLowerCase() === SIGNATURE_HEADER.toLowerCase() ? signature : undefined),
        body: async () => body,
      };
      return receiver.receive(request);
    },
    poll: () => poller.pollOnce(),
    /** The list has these events from now on, or does not answer. */
    list(events: readonly unknown[] | null) {
      answers = events !== null;
      listed = events ?? [];
    },
    /** From now on every statement of the inbox fails. */
    breakInbox: () => void database.exec('ALTER TABLE stablehooks_events RENAME TO elsewhere'),
    async scrape(): Promise<string> {
      const response = await fetch(`http://127.0.0.1:${port}/metrics`);
      return response.text();
    },
    async stop() {
      await poller.stop();
      await receiver.close();
      server.closeAllConnections();
      server.close();
      await provider.shutdown();
      database.close();
    },
  };
}

/** Lets every channel and every kind of failure happen once, and returns what was exported at the end. */
export async function exportedMetrics(): Promise<ExportedMetrics> {
  const app = await startApp();
  try {
    const event = exampleEvent('transfer.settled');
    await app.deliver(event);
    await app.deliver(event, secrets[1]);
    await app.deliver(event, 'whsec_unknown');
    await app.deliver(exampleEvent('transfer.failed'));
    await app.deliver(exampleEvent('redeem.failed'));
    await app.deliver({ ...exampleEvent('transfer.settled'), type: 'wallet.frozen' });
    app.list([exampleEvent('transfer.settled')]);
    await app.poll();
    app.list(null);
    await app.poll();
    await app.scrape();
    app.breakInbox();
    await app.deliver(exampleEvent('transfer.settled'));
    return parse(await app.scrape());
  } finally {
    await app.stop();
  }
}

/** Parses the text format of Prometheus. */
function parse(text: string): ExportedMetrics {
  const metrics = new Map<string, Map<string, Set<string>>>();
  for (const [, name = '', labels = ''] of text.matchAll(/^([a-z_]+)\{(.*)\} \S+$/gm)) {
    const known = metrics.get(name) ?? new Map<string, Set<string>>();
    metrics.set(name, known);
    for (const [, label = '', value = ''] of labels.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) {
      known.set(label, (known.get(label) ?? new Set()).add(value));
    }
  }
  return metrics;
}
