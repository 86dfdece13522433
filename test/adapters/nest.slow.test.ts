import { Injectable } from '@nestjs/common';
import type { HandlerContext, WebhookEvent } from 'stablehooks';
import { OnEvent, StablehooksModule } from 'stablehooks/nest';
import { contractReceiverOptions } from 'stablehooks-kit/conformance';
import * as z from 'zod/mini';
import { describeContract } from './listening.js';
import { createApp, PLATFORMS } from './nest-apps.js';

const { handlers, ...options } = contractReceiverOptions();

@Injectable()
class ContractHandlers {
  @OnEvent('accept.confirmed', z.object({ amount: z.string() }))
  accepted() {}

  @OnEvent('transfer.settled')
  settled(event: WebhookEvent<'transfer.settled'>, context: HandlerContext) {
    return handlers['transfer.settled']?.(event, context);
  }
}

for (const { platform, adapter } of PLATFORMS) {
  describeContract(`Nest 11 on ${platform}`, async () => {
    const imports = [StablehooksModule.forRoot(options)];
    const app = await createApp(adapter(), { imports, providers: [ContractHandlers] });
    await app.listen(0, '127.0.0.1');
    // Not app.close(), which waits for the handler that never ends until its lease lapses.
    const close = () =>
      new Promise<void>((resolve) => app.getHttpServer().close(resolve).closeAllConnections());
    return { url: `${await app.getUrl()}/hooks`, close };
  });
}
