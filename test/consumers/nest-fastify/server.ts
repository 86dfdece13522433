/** NestJS on Fastify. */
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { createContractReceiver } from 'stablehooks/conformance';
import { toFastifyPlugin } from 'stablehooks/fastify';

@Module({})
class AppModule {}

const app = await NestFactory.create<NestFastifyApplication>(AppModule, new FastifyAdapter(), {
  logger: false,
});
await app
  .getHttpAdapter()
  .getInstance()
  .register(toFastifyPlugin(createContractReceiver()), { prefix: '/hooks' });
await app.listen(0, '127.0.0.1');
console.log(await app.getUrl());
