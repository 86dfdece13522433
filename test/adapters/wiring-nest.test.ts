import { once } from 'node:events';
import {
  Body,
  Controller,
  ForbiddenException,
  Inject,
  Injectable,
  Post,
  type Provider,
  Scope,
  type Type,
  VersioningType,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import express from 'express';
import Database from 'libsql';
import { memoryInbox, type Receiver, type WebhookEvent } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import {
  getReceiverToken,
  InjectReceiver,
  OnEvent,
  StablehooksModule,
  type StablehooksModuleAsyncOptions,
  type StablehooksOptionsFactory,
} from 'stablehooks/nest';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { deferred } from '../receiver/delivery.js';
import { createApp, deliver, listening, observed, PLATFORMS, secret, toRoot } from './nest-apps.js';

@Injectable()
class Settlements {
  readonly ids: string[] = [];

  @OnEvent('transfer.settled')
  async settled({ id }: WebhookEvent<'transfer.settled'>): Promise<void> {
    this.ids.push(id);
  }
}

function slowHandler(steps: string[]) {
  const entered = deferred();
  const released = deferred();
  @Injectable()
  class Slow {
    @OnEvent('transfer.settled')
    async settled(): Promise<void> {
      entered.resolve();
      await released.promise;
      steps.push('handler ended');
    }
  }
  return { Slow, entered, released };
}

function logged() {
  const lines: string[] = [];
  const take = (line: unknown, context: unknown) => void lines.push(`${context}: ${line}`);
  const own = () => lines.filter((line) => line.startsWith('StablehooksModule: '));
  return { logger: { log: take, warn: take, error: take }, own };
}

function moduleOf(name: string, parts: { readonly providers: object[]; readonly exports: unknown[] }) {
  const module = { [name]: class {} }[name] as Type;
  return { module, ...parts } as { module: Type };
}

describe.each(PLATFORMS)('Nest on $platform', ({ platform, adapter }) => {
  test.each([
    { setting: 'the defaults', settings: {} },
    { setting: '`bodyParser: false`', settings: { bodyParser: false } },
    { setting: '`rawBody: true`', settings: { rawBody: true } },
  ])(
    'a genuine delivery is handled and a forged one refused with $setting, and a controller still gets its parsed body',
    async ({ settings }) => {
      @Controller('orders')
      class Orders {
        @Post()
        take(@Body() body: unknown) {
          return { got: body };
        }
      }
      const { module } = observed();
      const parts = { imports: [module], providers: [Settlements], controllers: [Orders] };
      const app = await createApp(adapter(), parts, settings);
      const origin = await listening(app);
      const event = exampleEvent('transfer.settled');

      expect(await deliver(`${origin}/hooks`, { event, by: 'guessed' })).toBe('401 rejected');
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
    },
  );

  test('a delivery is handled when main.ts registers a JSON parser, before it and for all types', async () => {
    const { module } = observed();
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });
    app.use(express.json({ type: () => true }));

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
  });

  test('the path is the whole path, without the global prefix and versions, and guards do not apply', async () => {
    const { module } = observed({ path: '/in/hooks' });
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });
    app.setGlobalPrefix('api');
    app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
    app.useGlobalGuards({
      canActivate: () => {
        throw new ForbiddenException();
      },
    });
    const origin = await listening(app);

    expect(await deliver(`${origin}/in/hooks`)).toBe('200 handled');
    expect(await deliver(`${origin}/api/in/hooks`)).toBe('404 undefined');
    expect(await deliver(`${origin}/api/v1/in/hooks`)).toBe('404 undefined');
  });

  test('the path can have parameters', async () => {
    const { module } = observed({ path: '/hooks/:tenant' });
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });

    expect(await deliver(`${await listening(app)}/hooks/acme`)).toBe('200 handled');
  });

  test('a receiver at / takes deliveries at the root', async () => {
    const { module } = observed({ path: '/' });
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });
    const origin = await listening(app);

    expect(await deliver(`${origin}/`)).toBe('200 handled');
    expect(await deliver(`${origin}/other`)).toBe('404 undefined');
  });

  test('close() waits for a handler that runs, answers new deliveries 503, and then destroys what `imports` provides', async () => {
    const steps: string[] = [];
    const { Slow, entered, released } = slowHandler(steps);
    class Database {
      onModuleDestroy() {
        steps.push('database closed');
      }
    }
    const database = moduleOf('DatabaseModule', { providers: [Database], exports: [Database] });
    const module = StablehooksModule.forRootAsync({
      imports: [database],
      useFactory: () => ({ secret }),
    });
    const app = await createApp(adapter(), { imports: [module], providers: [Slow] });
    const url = `${await listening(app)}/hooks`;

    const first = deliver(url);
    await entered.promise;
    const closing = app.close().then(() => steps.push('app closed'));
    expect(await deliver(url)).toBe('503 busy');
    expect(steps).toEqual([]);
    released.resolve();

    expect(await first).toBe('200 handled');
    await closing;
    expect(steps).toEqual(['handler ended', 'database closed', 'app closed']);
  });

  test('a testing module takes deliveries, and calls a mock in place of a handler', async () => {
    const ids: string[] = [];
    const { module } = observed();
    const testing = await Test.createTestingModule({ imports: [module], providers: [Settlements] })
      .overrideProvider(Settlements)
      .useValue({ settled: ({ id }: WebhookEvent) => void ids.push(id) })
      .compile();
    const app = testing.createNestApplication(adapter(), { logger: false });

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
    expect(ids).toHaveLength(1);
  });
});

test('after enableShutdownHooks() a signal closes the receiver: the handler that runs ends before the app', async () => {
  const steps: string[] = [];
  const { Slow, entered, released } = slowHandler(steps);
  const app = await createApp(new ExpressAdapter(), { imports: [observed().module], providers: [Slow] });
  app.enableShutdownHooks(['SIGUSR2']);
  const url = `${await listening(app)}/hooks`;
  const raised = once(process, 'SIGUSR2');
  const delivery = deliver(url);
  await entered.promise;

  process.kill(process.pid, 'SIGUSR2');
  await raised;
  expect(await deliver(url)).toBe('503 busy');
  // Nest raises the signal again once the app is closed.
  const closed = once(process, 'SIGUSR2').then(() => steps.push('app closed'));
  released.resolve();

  expect(await delivery).toBe('200 handled');
  await closed;
  expect(steps).toEqual(['handler ended', 'app closed']);
});

test('lines of the receiver go to the logger of Nest', async () => {
  const { logger, own } = logged();
  const imports = [StablehooksModule.forRoot({ secret })];
  const app = await createApp(new ExpressAdapter(), { imports, providers: [Settlements] }, { logger });

  expect(await deliver(`${await listening(app)}/hooks`, { by: 'guessed' })).toBe('401 rejected');
  expect(own()).toEqual([expect.stringContaining('ERR_SIGNATURE_MISMATCH')]);
});

test('an app without handlers starts, and warns that nothing runs', async () => {
  const { logger, own } = logged();
  const app = await createApp(new ExpressAdapter(), { imports: [observed().module] }, { logger });
  await app.init();

  expect(own()).toEqual([expect.stringContaining('No provider has a method with @OnEvent')]);
  await app.close();
});

describe('handlers are found', () => {
  test.each([
    { how: 'a class', providers: [Settlements] },
    { how: 'a class under another token', providers: [{ provide: 'x', useClass: Settlements }] },
    { how: 'a value under its class', providers: [{ provide: Settlements, useValue: new Settlements() }] },
    {
      how: 'a factory under its class',
      providers: [{ provide: Settlements, useFactory: async () => new Settlements() }],
    },
    {
      how: 'a class with further tokens',
      providers: [Settlements, { provide: 'x', useExisting: Settlements }],
    },
    { how: 'a class that extends it', providers: [class extends Settlements {}] },
  ])('in a provider that is given as $how', async ({ providers }) => {
    const { module } = observed();
    const app = await createApp(new ExpressAdapter(), { imports: [module], providers });

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
  });

  test('in a controller, for two types and with a schema, whose output the handler gets', async () => {
    const amounts: number[] = [];
    const Amount = z.object({ amount: z.pipe(z.string(), z.transform(Number)) });
    @Controller('orders')
    class Orders {
      @OnEvent('transfer.settled', Amount)
      @OnEvent('transfer.failed', Amount)
      ended({ payload }: WebhookEvent<'transfer.settled' | 'transfer.failed', { amount: number }>) {
        return amounts.push(payload.amount);
      }
    }
    const { module, outcomes } = observed();
    const app = await createApp(new ExpressAdapter(), { imports: [module], controllers: [Orders] });
    const url = `${await listening(app)}/hooks`;
    const settled = { ...exampleEvent('transfer.settled'), payload: { amount: '41' } };
    const failed = { ...exampleEvent('transfer.failed'), payload: { amount: '42' } };
    const wrong = exampleEvent('transfer.failed', { id: 'evt_wrong', payload: {} });

    expect(await deliver(url, { event: settled })).toBe('200 handled');
    expect(await deliver(url, { event: failed })).toBe('200 handled');
    expect(await deliver(url, { event: wrong })).toBe('500 failed');
    expect(amounts).toEqual([41, 42]);
    expect(outcomes[2]?.error?.code).toBe('ERR_PAYLOAD_INVALID');
  });
});

describe('the receiver is injected', () => {
  test('into every module, if a global module exports StablehooksModule', async () => {
    class Other {
      readonly receiver: Receiver;

      constructor(@InjectReceiver() receiver: Receiver) {
        this.receiver = receiver;
      }
    }
    const other = moduleOf('OtherModule', { providers: [Other], exports: [] });
    const shared = {
      ...moduleOf('HooksModule', { providers: [], exports: [StablehooksModule] }),
      global: true,
      imports: [observed().module],
    };
    const app = await createApp(new ExpressAdapter(), { imports: [shared, other], providers: [Settlements] });

    expect(app.get(Other, { strict: false }).receiver).toBe(app.get(getReceiverToken()));
    await app.close();
  });

  test('into providers of an app without a server, whose end closes it', async () => {
    class Runner {
      readonly receiver: Receiver;

      constructor(@InjectReceiver() receiver: Receiver) {
        this.receiver = receiver;
      }

      async onApplicationBootstrap() {
        await this.receiver.accept(exampleEvent('transfer.settled', { id: 'evt_waiting' }), 'redrive');
      }
    }
    const root = toRoot({ imports: [observed().module], providers: [Settlements, Runner] });
    const app = await NestFactory.createApplicationContext(root, { logger: false, abortOnError: false });
    const { receiver } = app.get(Runner);

    expect(app.get(Settlements).ids).toEqual(['evt_waiting']);
    expect(app.get(getReceiverToken())).toBe(receiver);
    await app.close();
    expect(await receiver.accept(exampleEvent('transfer.settled'), 'pull')).toMatchObject({ kind: 'busy' });
  });
});

test.each([{ start: true }, { start: { intervalMs: 5 } }])(
  'with `start: $start` events that are due run until the app is closed',
  async ({ start }) => {
    const ran = deferred();
    class Waiting {
      @OnEvent('transfer.settled')
      settled() {
        ran.resolve();
      }
    }
    const inbox = memoryInbox();
    await inbox.record([exampleEvent('transfer.settled')], { dueInMs: 0, origin: 'pull' });
    const app = await createApp(new ExpressAdapter(), {
      imports: [observed({ inbox, start }).module],
      providers: [Waiting],
    });
    await app.init();

    await ran.promise;
    await app.close();
  },
);

describe('forRootAsync', () => {
  const inbox = memoryInbox();
  @Injectable()
  class Config implements StablehooksOptionsFactory {
    createStablehooksOptions() {
      return { secret, inbox, path: '/async' };
    }
  }
  const imports = [moduleOf('ConfigModule', { providers: [Config], exports: [Config] })];

  test.each<{ how: string; options: StablehooksModuleAsyncOptions }>([
    {
      how: 'useFactory and inject',
      options: {
        imports,
        inject: [Config, { token: 'NONE', optional: true }],
        useFactory: async (config: Config) => config.createStablehooksOptions(),
      },
    },
    { how: 'useExisting', options: { imports, useExisting: Config } },
    { how: 'useClass', options: { useClass: Config } },
  ])('makes the receiver with the inbox that $how provides', async ({ how, options }) => {
    const module = StablehooksModule.forRootAsync(options);
    const app = await createApp(new FastifyAdapter(), { imports: [module], providers: [Settlements] });
    const event = exampleEvent('transfer.settled', { id: how });

    expect(await deliver(`${await listening(app)}/async`, { event })).toBe('200 handled');
    expect(app.get<Receiver>(getReceiverToken()).inbox).toBe(inbox);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'done' });
  });
});

describe('the app does not start', () => {
  @Injectable({ scope: Scope.REQUEST })
  class PerRequest extends Settlements {}
  @Injectable({ scope: Scope.REQUEST })
  class Session {}
  @Injectable()
  class WithSession extends Settlements {
    readonly session: object;

    constructor(@Inject(Session) session: object) {
      super();
      this.session = session;
    }
  }
  @Injectable()
  class Ledger {
    @OnEvent('transfer.settled')
    book() {}
  }
  @Injectable()
  class Misspelt {
    // @ts-expect-error: the type is misspelt.
    @OnEvent('transfer.setled')
    book() {}
  }
  class OtherAdapter extends ExpressAdapter {
    override getType(): string {
      return 'other';
    }
  }
  const scoped =
    'in a provider that is request-scoped or transient, or that depends on a request-scoped provider';

  test.each<{
    when: string;
    providers?: Provider[];
    options?: object;
    adapter?: ExpressAdapter;
    message: string;
  }>([
    {
      when: 'a type has two handlers',
      providers: [Settlements, Ledger],
      message:
        '`transfer.settled` has more than one handler: Settlements.settled (AppModule), Ledger.book (AppModule).',
    },
    { when: 'a handler is request-scoped', providers: [PerRequest], message: scoped },
    {
      when: 'a handler depends on something request-scoped',
      providers: [WithSession, Session],
      message: scoped,
    },
    {
      when: 'a handler is of an unknown type',
      providers: [Misspelt],
      message: 'transfer.setled',
    },
    {
      when: 'a handler is async, and its inbox has transactions of SQLite',
      providers: [Settlements],
      options: { inbox: sqliteInbox(new Database(':memory:'), { transactional: true }) },
      message: 'Remove `async` and `await`',
    },
    { when: 'the secret is missing', options: { secret: undefined }, message: '`secret` must be given' },
    { when: 'an option is unknown', options: { leaseMS: 1 }, message: 'unknown option `leaseMS`' },
    {
      when: 'the platform is neither Express nor Fastify',
      adapter: new OtherAdapter(),
      message: 'the platform other is neither Express nor Fastify',
    },
  ])('when $when', async ({ providers = [], options, adapter = new ExpressAdapter(), message }) => {
    const start = async () => {
      const imports = [observed(options).module];
      await listening(await createApp(adapter, { imports, providers }));
    };

    await expect(start()).rejects.toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringContaining(message),
    });
  });
});
