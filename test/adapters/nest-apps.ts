/** Apps of Nest on its two platforms, as a `main.ts` makes them. */
import { type INestApplication, Module, type ModuleMetadata, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { Outcome, UnknownEvent } from 'stablehooks';
import { StablehooksModule, type StablehooksModuleOptions } from 'stablehooks/nest';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { onTestFinished } from 'vitest';

export const secret = 'whsec_nest';

export const PLATFORMS = [
  { platform: 'Express', adapter: () => new ExpressAdapter() },
  { platform: 'Fastify', adapter: () => new FastifyAdapter() },
] as const;

type AppOptions = Parameters<typeof NestFactory.create>[2];

export function toRoot(metadata: ModuleMetadata): Type {
  class AppModule {}
  Module(metadata)(AppModule);
  return AppModule;
}

export function createApp(
  adapter: ExpressAdapter | FastifyAdapter,
  metadata: ModuleMetadata,
  options: AppOptions = {},
): Promise<INestApplication> {
  // With `abortOnError`, Nest ends the process when the app cannot be created.
  return NestFactory.create(toRoot(metadata), adapter, { logger: false, abortOnError: false, ...options });
}

/** Listens until the test has ended. Returns the origin of its URLs. */
export async function listening(app: INestApplication): Promise<string> {
  await app.listen(0, '127.0.0.1');
  onTestFinished(() => app.close());
  return await app.getUrl();
}

export function observed(options: Partial<StablehooksModuleOptions> = {}) {
  const outcomes: Outcome[] = [];
  const module = StablehooksModule.forRoot({
    secret,
    onOutcome: (outcome) => void outcomes.push(outcome),
    ...options,
  });
  return { module, outcomes };
}

export async function deliver(
  url: string,
  { event = exampleEvent('transfer.settled'), by = secret }: { event?: UnknownEvent; by?: string } = {},
): Promise<string> {
  const { method, headers, body } = await signedRequest(event, { secret: by, url });
  const reply = await fetch(url, { method, headers, body });
  const text = await reply.text();
  return `${reply.status} ${JSON.parse(text).outcome}`;
}
