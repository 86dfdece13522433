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

  /** Before the app listens: an event that ends the process is then counted, and set aside after some attempts. */
  async onApplicationBootstrap() {
    await this.poller.pollOnce({ signal: AbortSignal.timeout(10_000) });
    this.poller.start();
  }

  onModuleDestroy() {
    return this.poller.stop();
  }
}
