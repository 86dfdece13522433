import { Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import type { Receiver } from 'stablehooks';
import { createPoller, type Poller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { InjectReceiver } from 'stablehooks/nest';

@Injectable()
export class CatchUp implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly poller: Poller;

  constructor(@InjectReceiver() receiver: Receiver) {
    const { STABLEHOOKS_BASE_URL: baseUrl = '', STABLEHOOKS_TOKEN: token = '' } = process.env;
    this.poller = createPoller({ client: createClient({ baseUrl, token }), receiver });
  }

  /** Polls before the app listens, so that an event that crashes the process is counted and eventually set aside. */
  async onApplicationBootstrap() {
    await this.poller.pollOnce({ signal: AbortSignal.timeout(10_000) });
    this.poller.start();
  }

  onModuleDestroy() {
    return this.poller.stop();
  }
}
