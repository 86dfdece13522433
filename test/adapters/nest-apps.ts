/** Apps of Nest on its two platforms, as a `main.ts` makes them. */
import {
  type DynamicModule,
  type INestApplication,
  type LoggerService,
  Module,
  type Type,
} from '@nestjs/common';
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

/** What an app is made of. */
interface AppParts {
  readonly imports: readonly DynamicModule[];
  readonly providers?: readonly (Type | object)[];
  readonly controllers?: readonly Type[];
  readonly logger?: LoggerService | false;
  readonly bodyParser?: boolean;
  readonly rawBody?: boolean;
}

/** The root module of an app. */
export function toRoot({ imports, providers = [], controllers = [] }: AppParts): Type {
  class AppModule {}
  Module({ imports: [...imports], providers: [...providers] as Type[], controllers: [...controllers] })(
    AppModule,
  );
  return AppModule;
}

export function createApp(
  adapter: ExpressAdapter | FastifyAdapter,
  { logger = false, bodyParser, rawBody, ...parts }: AppParts,
): Promise<INestApplication> {
  return NestFactory.create(toRoot(parts), adapter, {
    logger,
    // Otherwise Nest ends the process when the app cannot be created.
    abortOnError: false,
    ...(bodyParser !== undefined && { bodyParser }),
    ...(rawBody !== undefined && { rawBody }),
  });
}

/** Listens until the test has ended. Returns the origin of its URLs. */
export async function listening(app: INestApplication): Promise<string> {
  await app.listen(0, '127.0.0.1');
  onTestFinished(() => app.close());
  return await app.getUrl();
}

/** A module of a receiver, and the outcomes of its deliveries. */
export function observed(options: Partial<StablehooksModuleOptions> = {}) {
  const outcomes: Outcome[] = [];
  const module = StablehooksModule.forRoot({
    secret,
    logger: { warn: () => undefined, error: () => undefined },
    onOutcome: (outcome) => void outcomes.push(outcome),
    ...options,
  });
  return { module, outcomes };
}

/** Delivers an event, and returns the status and the outcome of the answer. */
export async function deliver(
  url: string,
  { event = exampleEvent('transfer.settled'), by = secret }: { event?: UnknownEvent; by?: string } = {},
): Promise<string> {
  const { method, headers, body } = await signedRequest(event, { secret: by, url });
  const reply = await fetch(url, { method, headers, body });
  const text = await reply.text();
  return `${reply.status} ${JSON.parse(text).outcome}`;
}
