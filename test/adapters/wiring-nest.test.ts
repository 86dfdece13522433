import {
  Body,
  type CanActivate,
  Controller,
  ForbiddenException,
  Inject,
  Injectable,
  type MiddlewareConsumer,
  type NestModule,
  type OnApplicationBootstrap,
  Post,
  Scope,
  type Type,
  VersioningType,
} from '@nestjs/common';
import { LazyModuleLoader, NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import express from 'express';
import { createReceiver, memoryInbox, type Receiver, type WebhookEvent } from 'stablehooks';
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

function signal() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

function moduleOf(name: string, parts: { readonly providers?: object[]; readonly exports?: unknown[] }) {
  const module = { [name]: class {} }[name] as Type;
  return { module, ...parts } as { module: Type };
}

describe.each(PLATFORMS)('Nest on $platform', ({ platform, adapter }) => {
  test.each([
    { setting: 'the defaults', settings: {} },
    { setting: '`bodyParser: false`', settings: { bodyParser: false } },
    { setting: '`rawBody: true`', settings: { rawBody: true } },
  ])(
    'a delivery is handled with $setting, and a controller still gets its parsed body',
    async ({ settings }) => {
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
    },
  );

  test('a delivery is handled when main.ts registers a JSON parser, before it and for all types', async () => {
    const { module } = observed();
    const app = await createApp(adapter(), { imports: [module], providers: [Settlements] });
    app.use(express.json({ type: () => true }));

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
  });

  test('a delivery is handled when a module applies a middleware that reads the body of all routes', async () => {
    const { module } = observed();
    class Reading implements NestModule {
      configure(consumer: MiddlewareConsumer) {
        consumer.apply(express.json({ type: () => true })).forRoutes('*path');
      }
    }
    const app = await createApp(adapter(), {
      imports: [{ module: Reading }, module],
      providers: [Settlements],
    });

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

  test.each([
    { how: 'in one module', isGlobal: false },
    { how: 'with isGlobal', isGlobal: true },
  ])(
    'close() waits for a handler that runs, answers new deliveries 503, and then destroys what `imports` provides, $how',
    async ({ isGlobal }) => {
      const steps: string[] = [];
      const entered = signal();
      const released = signal();
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
      const module = StablehooksModule.forRootAsync({
        isGlobal,
        imports: [database],
        useFactory: () => ({ secret }),
      });
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
    },
  );

  test('a module that is imported before the receiver, beside it, is destroyed after it', async () => {
    const steps: string[] = [];
    const entered = signal();
    const released = signal();
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
    const database = moduleOf('DatabaseModule', { providers: [Database] });
    const app = await createApp(adapter(), { imports: [database, observed().module], providers: [Slow] });
    const delivery = deliver(`${await listening(app)}/hooks`);
    await entered.promise;
    const closing = app.close();
    released.resolve();

    expect(await delivery).toBe('200 handled');
    await closing;
    expect(steps).toEqual(['handler ended', 'database closed']);
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

describe('a body parser in front of the receiver', () => {
  test('on the Express instance that the app is created with is answered 500 ERR_BODY_UNAVAILABLE, and the line says where to move it', async () => {
    const server = express();
    server.use(express.json());
    const { module, outcomes } = observed();
    const app = await createApp(new ExpressAdapter(server), { imports: [module], providers: [Settlements] });

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('500 failed');
    expect(outcomes[0]?.error).toMatchObject({
      code: 'ERR_BODY_UNAVAILABLE',
      message: expect.stringContaining('NestFactory.create(AppModule, new ExpressAdapter(server)); app.use('),
    });
  });

  test('that keeps the bytes in rawBody changes nothing', async () => {
    const server = express();
    const verify = (request: object, _response: object, rawBody: Buffer) =>
      void Object.assign(request, { rawBody });
    server.use(express.json({ verify }));
    const { module } = observed();
    const app = await createApp(new ExpressAdapter(server), { imports: [module], providers: [Settlements] });

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
  });
});

describe('handlers are found', () => {
  /** The types that were handled in an app with these providers. */
  async function handledBy(providers: readonly object[]): Promise<string> {
    const { module } = observed();
    const app = await createApp(new ExpressAdapter(), { imports: [module], providers: [...providers] });
    return await deliver(`${await listening(app)}/hooks`);
  }

  test.each([
    { how: 'a class', providers: [Settlements] },
    { how: 'a class under another token', providers: [{ provide: 'x', useClass: Settlements }] },
    { how: 'a value', providers: [{ provide: 'x', useValue: new Settlements() }] },
    {
      how: 'a factory under the token of its class',
      providers: [{ provide: Settlements, useFactory: async () => new Settlements() }],
    },
    {
      how: 'a class with further tokens',
      providers: [
        Settlements,
        { provide: 'x', useExisting: Settlements },
        { provide: 'y', inject: [Settlements], useFactory: (settlements: Settlements) => settlements },
      ],
    },
  ])('in a provider that is given as $how', async ({ providers }) => {
    expect(await handledBy(providers)).toBe('200 handled');
  });

  test('in a base class, and a method that overrides one is the handler', async () => {
    const calls: string[] = [];
    @Injectable()
    class Derived extends Settlements {
      override async settled() {
        calls.push('derived');
      }
    }
    expect(await handledBy([Derived])).toBe('200 handled');
    expect(calls).toEqual(['derived']);
  });

  test('in a controller, and under another decorator that replaces the method', async () => {
    const calls: string[] = [];
    const traced = (_target: object, _key: string, descriptor: PropertyDescriptor) => {
      const method = descriptor.value;
      descriptor.value = function (...args: unknown[]) {
        calls.push('traced');
        return Reflect.apply(method, this, args);
      };
    };
    @Controller('orders')
    class Orders {
      @traced
      @OnEvent('transfer.settled')
      @OnEvent('transfer.failed')
      ended({ type }: WebhookEvent<'transfer.settled' | 'transfer.failed'>) {
        calls.push(type);
      }
    }
    const { module } = observed();
    const app = await createApp(new ExpressAdapter(), { imports: [module], controllers: [Orders] });
    const url = `${await listening(app)}/hooks`;

    expect(await deliver(url)).toBe('200 handled');
    expect(await deliver(url, { event: exampleEvent('transfer.failed') })).toBe('200 handled');
    expect(calls).toEqual(['traced', 'transfer.settled', 'traced', 'transfer.failed']);
  });

  test('with a schema, which checks the payload and gives the handler its output', async () => {
    const amounts: number[] = [];
    const amount = z.pipe(z.string(), z.transform(Number));
    @Injectable()
    class Typed {
      @OnEvent('transfer.settled', { payload: z.object({ amount }) })
      settled({ payload }: WebhookEvent<'transfer.settled', { amount: number }>) {
        amounts.push(payload.amount + 1);
      }
    }
    const { module, outcomes } = observed();
    const app = await createApp(new ExpressAdapter(), { imports: [module], providers: [Typed] });
    const url = `${await listening(app)}/hooks`;
    const event = exampleEvent('transfer.settled');

    expect(await deliver(url, { event: { ...event, payload: { amount: '41' } } })).toBe('200 handled');
    expect(await deliver(url, { event: { ...event, id: 'evt_2', payload: {} } })).toBe('500 failed');
    expect(amounts).toEqual([42]);
    expect(outcomes[1]?.error?.code).toBe('ERR_PAYLOAD_INVALID');
  });
});

describe('a receiver is injected', () => {
  test('by name, and runs what waits in its inbox in onApplicationBootstrap', async () => {
    @Injectable()
    class Runner implements OnApplicationBootstrap {
      readonly receiver: Receiver;
      readonly other: Receiver;

      constructor(@InjectReceiver() receiver: Receiver, @InjectReceiver('other') other: Receiver) {
        this.receiver = receiver;
        this.other = other;
      }

      async onApplicationBootstrap() {
        await this.receiver.accept(exampleEvent('transfer.settled', { id: 'evt_waiting' }), 'redrive');
      }
    }
    const other = observed({ name: 'other', path: '/other' }).module;
    const { module } = observed();
    // Without a server, as in a worker.
    const root = toRoot({ imports: [module, other], providers: [Settlements, Runner] });
    const app = await NestFactory.createApplicationContext(root, { logger: false, abortOnError: false });

    expect(app.get(Settlements).ids).toEqual(['evt_waiting']);
    const runner = app.get(Runner);
    expect(runner.receiver).toBe(app.get(getReceiverToken()));
    expect(runner.other).toBe(app.get(getReceiverToken('other')));
    await app.close();
    expect(await runner.receiver.accept(exampleEvent('transfer.settled'), 'pull')).toMatchObject({
      kind: 'busy',
    });
  });

  test('in modules that do not import it, with isGlobal', async () => {
    class Reports {
      readonly receiver: Receiver;

      constructor(@Inject(getReceiverToken()) receiver: Receiver) {
        this.receiver = receiver;
      }
    }
    const { module } = observed({ isGlobal: true });
    const imports = [module, moduleOf('ReportsModule', { providers: [Reports] })];
    const app = await createApp(new ExpressAdapter(), { imports, providers: [Settlements] });

    expect(app.get(Reports, { strict: false }).receiver).toBe(app.get(getReceiverToken()));
    await app.close();
  });

  test('and its handlers fail before the app has started, so that the event runs again', async () => {
    const { module, outcomes } = observed();
    const early = {
      provide: 'EARLY',
      inject: [getReceiverToken()],
      useFactory: (receiver: Receiver) => receiver.accept(exampleEvent('transfer.settled'), 'redrive'),
    };
    const app = await createApp(new ExpressAdapter(), { imports: [module], providers: [Settlements, early] });

    expect(outcomes[0]?.error).toMatchObject({ code: 'ERR_HANDLER_FAILED' });
    expect(String(outcomes[0]?.error?.cause)).toContain('onApplicationBootstrap or later');
    await app.close();
  });
});

test.each(PLATFORMS)(
  'a testing module with $platform takes deliveries, and calls a mock in place of a handler',
  async ({ adapter }) => {
    const ids: string[] = [];
    const { module } = observed();
    const testing = await Test.createTestingModule({ imports: [module], providers: [Settlements] })
      .overrideProvider(Settlements)
      .useValue({ settled: ({ id }: WebhookEvent) => void ids.push(id) })
      .compile();
    const app = testing.createNestApplication(adapter(), { logger: false });

    expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
    expect(ids).toHaveLength(1);
  },
);

describe('forRootAsync', () => {
  test('makes the receiver of what its function returns for the injected configuration', async () => {
    const inbox = memoryInbox();
    const module = StablehooksModule.forRootAsync({
      name: 'async',
      path: '/async',
      imports: [moduleOf('ConfigModule', { providers: [CONFIG], exports: ['CONFIG'] })],
      inject: ['CONFIG', { token: 'NONE', optional: true }],
      useFactory: async (config: typeof CONFIG.useValue, none: undefined) => {
        expect(none).toBeUndefined();
        return { secret: config.secret, inbox };
      },
    });
    const app = await createApp(new FastifyAdapter(), { imports: [module] });

    expect(await deliver(`${await listening(app)}/async`)).toBe('200 ignored');
    expect(app.get<Receiver>(getReceiverToken('async')).inbox).toBe(inbox);
  });

  test.each([
    { wrong: 'has an unknown option', given: { secret, handlers: {} }, message: 'unknown option `handlers`' },
    { wrong: 'has no secret', given: {}, message: '`secret` must be given' },
    { wrong: 'are of the wrong type', given: { secret, leaseMs: 'long' }, message: '`leaseMs` must be' },
  ])(
    'refuses to create the app when the options that its function returns $wrong',
    async ({ given, message }) => {
      const module = StablehooksModule.forRootAsync({ useFactory: () => given as { secret: string } });

      await expect(createApp(new ExpressAdapter(), { imports: [module] })).rejects.toMatchObject({
        code: 'ERR_CONFIG_INVALID',
        message: expect.stringContaining(message),
      });
    },
  );
});

/** A handler that is in `providers` of no app. */
@Injectable()
class Unprovided {
  @OnEvent('transfer.settled')
  settled() {}
}
const makeUnprovided = () => new Unprovided();

/** Nest's logger, and the lines of errors and warnings. */
function logged() {
  const errors: string[] = [];
  const warnings: string[] = [];
  const logger = {
    log: () => undefined,
    warn: (line: unknown) => void warnings.push(String(line)),
    error: (line: unknown) => void errors.push(String(line)),
  };
  return { errors, warnings, logger };
}

test('a class with a handler that is no provider of the app does not stop it, nor do factories that make other things', async () => {
  const { errors, logger } = logged();
  const { module } = observed();
  const providers = [
    Settlements,
    { provide: 'x', scope: Scope.REQUEST, useFactory: () => new Date() },
    { provide: 'y', scope: Scope.TRANSIENT, useFactory: () => new Date() },
    { provide: 'z', inject: ['y'], useFactory: (y: Date) => [y] },
  ];
  const app = await createApp(new ExpressAdapter(), { imports: [module], providers, logger });

  expect(await deliver(`${await listening(app)}/hooks`)).toBe('200 handled');
  expect(errors).toEqual([]);
});

test('a request-scoped factory that may make a handler, which no provider is, is named in a warning at start', async () => {
  const { warnings, logger } = logged();
  const { module } = observed();
  const providers = [{ provide: 'x', scope: Scope.REQUEST, useFactory: () => makeUnprovided() }];
  const app = await createApp(new ExpressAdapter(), { imports: [module], providers, logger });
  await app.init();

  expect(warnings[0]).toContain('Unprovided.settled');
  expect(warnings[0]).toContain('x (AppModule)');
  await app.close();
});

test('a handler in a module that is loaded lazily never runs, and an error says so at the first event of its type', async () => {
  const { errors, logger } = logged();
  const { module } = observed({ logger });
  const app = await createApp(new ExpressAdapter(), { imports: [module], logger });
  const url = `${await listening(app)}/hooks`;
  const lazy = moduleOf('LazyModule', { providers: [Unprovided] });
  await app.get(LazyModuleLoader).load(() => lazy);

  expect(await deliver(url)).toBe('200 ignored');
  expect(await deliver(url, { event: exampleEvent('transfer.settled', { id: 'evt_2' }) })).toBe(
    '200 ignored',
  );
  expect(errors).toEqual([
    expect.stringContaining(
      'Unprovided.settled (LazyModule) never runs, because its module was loaded after',
    ),
  ]);
});

test.each([
  {
    platform: 'Express',
    adapter: () => {
      const server = express();
      const all = () => {
        throw new Error('no routes');
      };
      return new ExpressAdapter(Object.assign(server, { all }));
    },
    message: 'no routes',
  },
  {
    platform: 'Fastify',
    adapter: () => {
      const adapter = new FastifyAdapter();
      adapter.getInstance().route({ method: 'POST', url: '/hooks', handler: async () => 'taken' });
      return adapter;
    },
    message: '/hooks',
  },
])(
  'a testing module with $platform does not start when the route cannot be registered',
  async ({ adapter, message }) => {
    const testing = await Test.createTestingModule({ imports: [observed().module] }).compile();
    const app = testing.createNestApplication(adapter(), { logger: false });

    await expect(app.init()).rejects.toThrow(message);
  },
);

test('forRoot takes each option of createReceiver but handlers and payloads', async () => {
  const untyped = (make: (options: never) => unknown) => {
    try {
      make({ secret, handlers: {}, xxxxxxxxxxxxxxxxxxxx: 1 } as never);
    } catch (error) {
      return String(error);
    }
    return '';
  };
  const namesIn = (message: string) => /The options are (.+)\.$/.exec(message)?.[1]?.split(', ') ?? [];
  const own = ['name', 'path', 'isGlobal'];
  const apart = ['handlers', 'payloads'];
  const ofReceiver = namesIn(untyped(createReceiver));
  const unknown = () => StablehooksModule.forRoot({ secret, xxxxxxxxxxxxxxxxxxxx: 1 } as { secret: string });
  const ofModule = namesIn(untyped(unknown));

  expect(ofReceiver).toContain('telemetry');
  expect(ofModule.filter((name) => !own.includes(name)).sort()).toEqual(
    ofReceiver.filter((name) => !apart.includes(name)).sort(),
  );
});

test('the telemetry that forRoot is given observes the deliveries of the receiver', async () => {
  const seen: string[] = [];
  const silent = createReceiver({ secret, handlers: {} }).telemetry;
  const handler: typeof silent.handler = (event, _lease, run) => {
    seen.push(event.id);
    return run();
  };
  const { module } = observed({ telemetry: { ...silent, handler } });
  const app = await createApp(new ExpressAdapter(), { imports: [module], providers: [Settlements] });
  const event = exampleEvent('transfer.settled');

  expect(await deliver(`${await listening(app)}/hooks`, { event })).toBe('200 handled');
  expect(seen).toEqual([event.id]);
});

describe('the app does not start', () => {
  @Injectable({ scope: Scope.REQUEST })
  class PerRequest {
    @OnEvent('transfer.settled')
    settled() {}
  }
  @Injectable({ scope: Scope.TRANSIENT })
  class PerUse {
    @OnEvent('transfer.settled')
    settled() {}
  }
  @Injectable({ scope: Scope.REQUEST })
  class Session {}
  @Injectable()
  class WithSession {
    readonly session: object;

    constructor(@Inject(Session) session: object) {
      this.session = session;
    }

    @OnEvent('transfer.settled')
    settled() {}
  }
  @Injectable()
  class Ledger {
    @OnEvent('transfer.settled')
    book() {}
  }
  @Injectable()
  class Lost {
    @OnEvent('transfer.settled', { receiver: 'tresury' })
    settled() {}
  }
  const treasury = () => observed({ name: 'treasury', path: '/treasury' }).module;

  test.each([
    {
      when: 'a type has two handlers',
      providers: [Settlements, Ledger],
      message: 'Settlements.settled (AppModule) and Ledger.book (AppModule) both handle `transfer.settled`',
    },
    {
      when: 'a handler names a receiver that does not exist',
      imports: [treasury()],
      providers: [Lost],
      message: 'the receiver `tresury`, which no StablehooksModule has. The receivers are ',
    },
    {
      when: 'two receivers have one name',
      imports: [observed({ path: '/other' }).module],
      message: 'two receivers have the name `default`',
    },
    {
      when: 'two receivers have one path',
      imports: [observed({ name: 'other' }).module],
      message: 'have the path /hooks',
    },
    {
      when: 'the paths of two receivers differ by upper and lower case alone',
      imports: [observed({ name: 'other', path: '/Hooks' }).module],
      message: 'different in more than upper and lower case',
    },
    {
      when: 'a handler is request-scoped',
      providers: [PerRequest],
      message: 'PerRequest.settled (AppModule)',
    },
    { when: 'a handler is transient', providers: [PerUse], message: 'request-scoped or transient' },
    {
      when: 'a factory makes a transient handler that a provider uses',
      providers: [
        { provide: 'x', scope: Scope.TRANSIENT, useFactory: () => makeUnprovided() },
        { provide: 'y', inject: ['x'], useFactory: (x: object) => [x] },
      ],
      message: 'x.settled (AppModule) is in a provider that is request-scoped or transient',
    },
    {
      when: 'a handler depends on something request-scoped',
      providers: [WithSession, Session],
      message: 'depends on a request-scoped one',
    },
    {
      when: 'a handler comes from a factory whose token is not its class',
      providers: [{ provide: 'x', useFactory: () => new Settlements() }],
      message: 'x.settled (AppModule) comes from a factory',
    },
    {
      when: 'the instance of a handler lacks its method',
      providers: [{ provide: Settlements, useValue: {} }],
      message: 'does not have this method',
    },
  ])('when $when', async ({ imports = [], providers = [], message }) => {
    const start = async () => {
      const parts = { imports: [observed().module, ...imports], providers: [...providers] };
      await listening(await createApp(new ExpressAdapter(), parts));
    };

    await expect(start()).rejects.toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringContaining(message),
    });
  });

  test('when the platform is neither Express nor Fastify', async () => {
    class OtherAdapter extends ExpressAdapter {
      override getType(): string {
        return 'other';
      }
    }
    const app = await createApp(new OtherAdapter(), { imports: [observed().module] });

    await expect(app.init()).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  });
});

test('an app without any handler starts, and warns that nothing runs', async () => {
  const lines: unknown[] = [];
  const logger = {
    log: () => undefined,
    warn: (line: unknown) => void lines.push(line),
    error: () => undefined,
  };
  const app = await createApp(new ExpressAdapter(), { imports: [observed().module], logger });
  await app.init();

  expect(lines).toEqual([expect.stringContaining('no provider has a method with @OnEvent')]);
  await app.close();
});

test.each([
  { what: 'two receivers without a queue', queue: undefined, warned: 1 },
  { what: 'none, if one has a queue', queue: { enqueue: async () => undefined }, warned: 0 },
])(
  'a warning at start names receivers that share an inbox and handle other types: $what',
  async ({ queue, warned }) => {
    const { warnings, logger } = logged();
    const inbox = { ...memoryInbox(), durable: true };
    const first = observed({ inbox, queue });
    const second = observed({ name: 'treasury', path: '/treasury', inbox });
    const other = observed({ name: 'other', path: '/other', inbox: memoryInbox() });
    @Injectable()
    class Treasury {
      @OnEvent('redeem.failed', { receiver: 'treasury' })
      failed() {}
    }
    const imports = [first.module, second.module, other.module];
    const app = await createApp(new ExpressAdapter(), {
      imports,
      providers: [Settlements, Treasury],
      logger,
    });
    await app.init();

    const shared = warnings.filter((line) => line.includes('shares its inbox'));
    expect(shared).toHaveLength(warned);
    if (warned > 0) {
      expect(shared[0]).toContain(
        'Receiver `treasury` at /treasury: it shares its inbox with the receiver `default`',
      );
      expect(shared[0]).toContain('transfer.settled');
    }
    await app.close();
  },
);

test('receivers that share an inbox and handle the same types are not warned of', async () => {
  const { warnings, logger } = logged();
  const inbox = memoryInbox();
  @Injectable()
  class Treasury {
    @OnEvent('transfer.settled', { receiver: 'treasury' })
    settled() {}
  }
  const imports = [
    observed({ inbox }).module,
    observed({ name: 'treasury', path: '/treasury', inbox }).module,
  ];
  const app = await createApp(new ExpressAdapter(), { imports, providers: [Settlements, Treasury], logger });
  await app.init();

  expect(warnings).toEqual([]);
  await app.close();
});

describe('OnEvent refuses', () => {
  const untyped = OnEvent as (...args: readonly unknown[]) => (...args: readonly unknown[]) => void;

  test.each([
    {
      what: 'a static method',
      decorate: () => untyped('transfer.settled')(Settlements, 'of'),
      says: 'is static',
    },
    {
      what: 'to be a decorator of ECMAScript',
      decorate: () => untyped('transfer.settled')(() => undefined, { kind: 'method' }),
      says: 'experimentalDecorators',
    },
    {
      what: 'an unknown type',
      decorate: () => untyped('x'),
      says: 'The types are accept.confirmed, transfer.settled',
    },
  ])('$what', ({ decorate, says }) => {
    expect(decorate).toThrow(
      expect.objectContaining({ code: 'ERR_CONFIG_INVALID', message: expect.stringContaining(says) }),
    );
  });
});
