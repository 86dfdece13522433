/** The App Router, on the Edge runtime. */
import { createReceiver } from 'stablehooks';
import { toNextRoute } from 'stablehooks/next';

export const runtime = 'edge';

export const { POST } = toNextRoute(
  createReceiver({ secret: 'contract-secret-old', handlers: { 'transfer.settled': () => undefined } }),
);
