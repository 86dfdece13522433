/** NestJS: handlers by decorators, on the platform that the argument names, and a controller with `rawBody`. */
import 'reflect-metadata';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Controller, Injectable, Module, Post, Req, Res } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { HandlerContext, Receiver, StandardSchema, WebhookEvent } from 'stablehooks';
import { InjectReceiver, OnEvent, StablehooksModule } from 'stablehooks/nest';
import { toNodeHandler } from 'stablehooks/node';
import { contractReceiverOptions, createContractReceiver } from './contract-receiver.js';

const { handlers, ...options } = contractReceiverOptions();

const amountSchema: StandardSchema<{ readonly amount: string }> = {
  '~standard': {
    validate: (value) => {
      const { amount } = value as { readonly amount?: unknown };
      return typeof amount === 'string' ? { value: { amount } } : { issues: [{ message: 'no string' }] };
    },
  },
};

@Injectable()
class Behaviours {
  async settled(event: WebhookEvent<'transfer.settled'>, context: HandlerContext) {
    await handlers['transfer.settled']?.(event, context);
  }
}

@Injectable()
class Events {
  constructor(
    private readonly behaviours: Behaviours,
    @InjectReceiver() readonly receiver: Receiver,
  ) {}

  @OnEvent('accept.confirmed', amountSchema)
  accepted() {}

  @OnEvent('transfer.settled')
  async settled(event: WebhookEvent<'transfer.settled'>, context: HandlerContext): Promise<void> {
    await this.behaviours.settled(event, context);
  }
}

const handler = toNodeHandler(createContractReceiver());

@Controller('controller')
class HooksController {
  @Post()
  take(@Req() request: IncomingMessage, @Res() response: ServerResponse): void {
    handler(request, response);
  }
}

@Module({
  imports: [StablehooksModule.forRootAsync({ useFactory: () => options })],
  controllers: [HooksController],
  providers: [Behaviours, Events],
})
class AppModule {}

async function main(): Promise<void> {
  const adapter = process.argv[2] === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
  const app = await NestFactory.create(AppModule, adapter, { rawBody: true, logger: ['error'] });
  app.setGlobalPrefix('api', { exclude: ['controller'] });
  // As a body parser would, it takes the body of what reaches it.
  app.use('/hooks', (request: IncomingMessage, _response: ServerResponse, next: () => void) => {
    request.on('end', next).resume();
  });
  app.enableShutdownHooks();
  await app.listen(0, '127.0.0.1');
  console.log(await app.getUrl());
}

main();
