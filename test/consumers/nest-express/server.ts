/** NestJS on Express: mounted above Nest's parsers, and in a controller by `rawBody`. */
import 'reflect-metadata';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Controller, Module, Post, Req, Res } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { createContractReceiver } from 'stablehooks/conformance';
import { toExpressHandler } from 'stablehooks/express';
import { toNodeHandler } from 'stablehooks/node';

const handler = toNodeHandler(createContractReceiver());

@Controller('controller')
class HooksController {
  @Post()
  take(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    return handler(request, response);
  }
}

@Module({ controllers: [HooksController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { rawBody: true, logger: false });
app.use('/hooks', toExpressHandler(createContractReceiver()));
await app.listen(0, '127.0.0.1');
console.log(await app.getUrl());
