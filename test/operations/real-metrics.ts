/** What a real receiver with `openTelemetry()` exports through the real Prometheus exporter. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import Database from 'libsql';
import { createReceiver, PermanentError, SIGNATURE_HEADER, sign, type UnknownEvent } from 'stablehooks';
import { createPoller, type ListedEvents, type PollerClient } from 'stablehooks/catch-up';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { exampleEvent } from 'stablehooks/testing';

/** For each exported series name, the labels and the values that they had. */
export type ExportedMetrics = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

const secrets = ['whsec_new', 'whsec_old'] as const;
const silent = { warn: () => undefined, error: () => undefined };

/** Lets every channel and every kind of failure happen once, and returns what was exported at the end. */
export async function exportedMetrics(): Promise<ExportedMetrics> {
  const exporter = new PrometheusExporter({ preventServerStart: true });
  const provider = new MeterProvider({ readers: [exporter] });
  const server = createServer((request, response) => exporter.getMetricsRequestHandler(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const database = new Database(':memory:');
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
  const deliver = async (event: UnknownEvent, secret: string = secrets[0]) => {
    const body = new TextEncoder().encode(JSON.stringify(event));
    const signature = await sign(body, { secret });
    const isSignature = (name: string) => name.toLowerCase() === SIGNATURE_HEADER.toLowerCase();
    await receiver.receive({
      method: 'POST',
      header: (name) => (isSignature(name) ? signature : undefined),
      body: async () => body,
    });
  };
  let answer: ListedEvents | undefined;
  const client: PollerClient = {
    events: {
      async listWithProblems() {
        if (answer === undefined) throw new Error('503');
        return answer;
      },
    },
  };
  const poller = createPoller({ client, receiver, logger: silent, since: new Date(0) });
  try {
    const event = exampleEvent('transfer.settled');
    await deliver(event);
    await deliver(event, secrets[1]);
    await deliver(event, 'whsec_unknown');
    await deliver(exampleEvent('transfer.failed'));
    await deliver(exampleEvent('redeem.failed'));
    await deliver({ ...exampleEvent('transfer.settled'), type: 'wallet.frozen' });
    const lost = exampleEvent('transfer.settled');
    const noEvent = { index: 0, fields: [], value: null };
    const answers: ListedEvents[] = [
      { events: [lost], problems: [], size: 1 },
      { events: [], problems: [noEvent], size: 1 },
    ];
    for (answer of [undefined, ...answers]) await poller.pollOnce();
    database.exec('ALTER TABLE stablehooks_events RENAME TO elsewhere');
    await deliver(exampleEvent('transfer.settled'));
    // The inbox is asked for its gauges, so it must be there.
    database.exec('ALTER TABLE elsewhere RENAME TO stablehooks_events');
    return parse(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  } finally {
    await poller.stop();
    await receiver.close();
    server.closeAllConnections();
    server.close();
    await provider.shutdown();
    database.close();
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
