import { once } from 'node:events';
import {
  Body,
  type CanActivate,
  Controller,
  ForbiddenException,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  Post,
  Scope,
  type Type,
  VersioningType,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import express from 'express';
import { type HandlerContext, memoryInbox, type Receiver, type WebhookEvent } from 'stablehooks';
import { getReceiverToken, InjectReceiver, OnEvent, StablehooksModule } from 'stablehooks/nest';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { createApp, deliver, listening, observed, PLATFORMS, secret, toRoot } from './nest-apps.js';

@Injectable()
class Settlements {
  readonly ids: string[] = [];

  @OnEvent('transfer.settled')
  async settled({ id }: WebhookEvent<'transfer.settled'>): Promise<void> {
    this.ids.push(id);
  }
}

/** The root module imports it; a value of the app's configuration. */
const CONFIG = { provide: 'CONFIG', useValue: { secret } };

function moduleOf(name: string, parts: { readonly providers?: object[]; readonly exports?: unknown[] }) {
  const module = { [name]: class {} }[name] as Type;
  return { module, ...parts } as { module: Type };
}

describe.each(PLATFORMS)('Nest on $platform', ({ platform, adapter }) => {
  test.each([
    { setting: 'the defaults', settings: {} },
    { setting: '`bodyParser: false`', settings: { bodyParser: false } },
    { setting: '`rawBody: true`', settings: { rawBody: true } },
  ])('a delivery is handled with $setting, and a controller still gets its parsed body', async ({ settings }) => {
    @Controller('orders')
    class Orders {
      @Post()
      take(@Body() body: unknown) {
        return { got: body };
      }
    }
    const { module } = observed();
    const parts = { imports: [module], providers: [Settlements], controllers: [Orders], ...settings };
    const app = await createApp(adapter(), parts);
    const origin = await listening(app);
    const event = exampleEvent('transfer.settled');

    expect(await deliver(`${origin}/hooks`, { event })).toBe('200 handled');
    expect(await deliver(`${origin}/hooks`, { event })).toBe('200 duplicate');
    expect(app.get(Settlements).ids).toEqual([event.id]);
    const order = await fetch(`${origin}/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"a":1}',
    });
    const parsed = !('bodyParser' in settings) || platform === 'Fastify';
    expect(await order.json()).toEqual(parsed ? { got: { a: 1 } } : {});
  });

  test('a delivery is handled when main.ts registers a JSON parser, before it and for all types', async () => {
    const { module } = observed();
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });
    app.use(express.json({ type: () => true }));

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
  });

  test('the path is the whole path: the global prefix and versions do not change it', async () => {
    const { module } = observed({ path: '/in/hooks' });
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });
    app.setGlobalPrefix('api');
    app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
    const origin = await listening(app);

    expect(await deliver(`${origin}/in/hooks`)).toBe('200 handled');
    expect(await deliver(`${origin}/api/in/hooks`)).toBe('404 undefined');
    expect(await deliver(`${origin}/api/v1/in/hooks`)).toBe('404 undefined');
  });

  test('a receiver at / takes deliveries at the root', async () => {
    const { module } = observed({ path: '/' });
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });
    const origin = await listening(app);

    expect(await deliver(`${origin}/`)).toBe('200 handled');
    expect(await deliver(`${origin}/other`)).toBe('404 undefined');
  });

  test('guards of the app do not keep deliveries away', async () => {
    const guard: CanActivate = {
      canActivate: () => {
        throw new ForbiddenException();
      },
    };
    const { module } = observed();
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });
    app.useGlobalGuards(guard);

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
  });

  test('each of several receivers has its own path, secret, inbox and handlers', async () => {
    @Injectable()
    class Treasury {
      readonly seen: string[] = [];

      @OnEvent('transfer.settled', { receiver: 'treasury' })
      settled({ id }: WebhookEvent<'transfer.settled'>): void {
        this.seen.push(id);
      }

      @OnEvent('redeem.failed')
      failed({ id }: WebhookEvent<'redeem.failed'>): void {
        this.seen.push(`default ${id}`);
      }
    }
    const first = observed();
    const second = observed({ name: 'treasury', path: '/treasury', secret: 'whsec_treasury' });
    const imports = [first.module, second.module];
    const app = await createApp(adapter(), { imports, providers: [Settlements, Treasury] });
    const origin = await listening(app);
    const event = exampleEvent('transfer.settled');
    const failed = exampleEvent('redeem.failed');

    expect(await deliver(`${origin}/hooks`, { event })).toBe('200 handled');
    expect(await deliver(`${origin}/treasury`, { event })).toBe('401 rejected');
    expect(await deliver(`${origin}/treasury`, { event, by: 'whsec_treasury' })).toBe('200 handled');
    expect(await deliver(`${origin}/hooks`, { event: failed })).toBe('200 handled');
    expect(await deliver(`${origin}/treasury`, { event: failed, by: 'whsec_treasury' })).toBe('200 ignored');
    expect(app.get(Settlements).ids).toEqual([event.id]);
    expect(app.get(Treasury).seen).toEqual([event.id, `default ${failed.id}`]);
  });

  test('close() waits for a handler that runs, answers new deliveries 503, and then destroys what `imports` provides', async () => {
    const steps: string[] = [];
    const entered = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    class Database {
      onModuleDestroy() {
        steps.push('database closed');
      }
    }
    @Injectable()
    class Slow {
      @OnEvent('transfer.settled')
      async settled(): Promise<void> {
        entered.resolve();
        await released.promise;
        steps.push('handler ended');
      }
    }
    const database = moduleOf('DatabaseModule', { providers: [Database], exports: [Database] });
    const module = StablehooksModule.forRootAsync({ imports: [database], useFactory: () => ({ secret }) });
    const app = await createApp(adapter(), { imports: [module], providers: [Slow] });
    const origin = await listening(app);

    const first = deliver(`${origin}/hooks`);
    await entered.promise;
    const closing = app.close().then(() => steps.push('app closed'));
    const second = await deliver(`${origin}/hooks`);
    expect(steps).toEqual([]);
    released.resolve();

    expect([await first, second]).toEqual(['200 handled', '503 busy']);
    await closing;
    expect(steps).toEqual(['handler ended', 'database closed', 'app closed']);
  });

  test('lines of the receiver go to the logger of Nest', async () => {
    const lines: string[] = [];
    const take = (line: unknown, context: unknown) => void lines.push(`${context}: ${line}`);
    const logger = { log: take, warn: take, error: take };
    const imports = [StablehooksModule.forRoot({ secret })];
    const app = await createApp(adapter(), { imports, providers: [Settlements], logger });
    const origin = await listening(app);

    expect(await deliver(`${origin}/hooks`, { by: 'guessed' })).toBe('401 rejected');
    const own = lines.filter((line) => line.startsWith('StablehooksModule: '));
    expect(own).toEqual([
      'StablehooksModule: Receiver `default` at /hooks: transfer.settled by Settlements.settled (AppModule); without a handler: accept.confirmed, transfer.failed, redeem.completed, redeem.failed',
      expect.stringContaining('ERR_SIGNATURE_MISMATCH'),
    ]);
  });
});
