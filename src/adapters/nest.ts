/** `stablehooks/nest`: the module for NestJS 11 and 12, on Express or Fastify. */
import {
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type ConfigurableModuleOptionsFactory,
  Inject,
  Injectable,
  Logger,
  Module,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, HttpAdapterHost, MetadataScanner } from '@nestjs/core';
import type { FastifyInstance } from 'fastify';
import { wrapping } from '../core/awaitable.js';
import { ConfigError } from '../core/errors.js';
import {
  EVENT_TYPES,
  type EventType,
  type StandardSchema,
  type UnknownPayload,
  type WebhookEvent,
} from '../core/events.js';
import type { HandlerContext, Handlers } from '../receiver/handler.js';
import type { ReceiverOptions } from '../receiver/options.js';
import { createReceiver, type Receiver } from '../receiver/receiver.js';
import { withPayload } from '../receiver/with-payload.js';
import { toExpressHandler } from './express.js';
import { toFastifyPlugin } from './fastify.js';

const RECEIVER = 'StablehooksReceiver';
const HANDLERS = Symbol('stablehooks.handlers');
const ROUTE = Symbol('stablehooks.route');
const MARKS = 'stablehooks:on-event';

const logger = new Logger('StablehooksModule');

/** The options below, and all options of `createReceiver` except `handlers`. Mark your handlers with {@link OnEvent}. */
export interface StablehooksModuleOptions extends Omit<ReceiverOptions<unknown>, 'handlers'> {
  /** The full URL path of the route. Nest's global prefix and versioning don't change this path. @default '/hooks' */
  readonly path?: string | undefined;
  /** Whether to call `receiver.start()` when the app starts, or the options to call it with. @default false */
  readonly start?: boolean | { readonly intervalMs?: number | undefined } | undefined;
}

/** Options of `forRootAsync`: `useFactory`, `useClass` or `useExisting`, plus `imports` and `inject`. */
export type StablehooksModuleAsyncOptions = ConfigurableModuleAsyncOptions<
  StablehooksModuleOptions,
  'createStablehooksOptions'
>;

/** The interface of a class that {@link StablehooksModule.forRootAsync} accepts as `useClass` or `useExisting`. */
export type StablehooksOptionsFactory = ConfigurableModuleOptionsFactory<
  StablehooksModuleOptions,
  'createStablehooksOptions'
>;

/** A decorator for methods that accept this event. The compiler doesn't check the method's type for `ctx.tx`. */
export type EventDecorator<Type extends EventType, Payload = UnknownPayload> = <
  Method extends (event: WebhookEvent<Type, Payload>, context: HandlerContext<never>) => unknown,
>(
  prototype: object,
  key: string,
  descriptor: TypedPropertyDescriptor<Method>,
) => void;

interface Mark {
  readonly type: EventType;
  readonly schema: StandardSchema | undefined;
}

/**
 * Makes a method the handler for an event type, which can have only one handler. The method's provider or controller must
 * have the default scope. If the method throws anything except a `PermanentError`, the event is retried.
 *
 * @param schema - a Standard Schema that validates and types the payload. Without it, every payload field is `unknown`.
 * @example
 * ```ts
 * @Injectable()
 * class Settlements {
 *   @OnEvent('transfer.settled')
 *   async settled(event: WebhookEvent<'transfer.settled'>) {}
 * }
 * ```
 */
export function OnEvent<const Type extends EventType, Payload = UnknownPayload>(
  type: Type,
  schema?: StandardSchema<Payload>,
): EventDecorator<Type, Payload> {
  return (_prototype, _key, { value: method }) => {
    if (method === undefined) return;
    Reflect.defineMetadata(MARKS, [...marksOf(method), { type, schema }], method);
  };
}

function marksOf(method: object): readonly Mark[] {
  return Reflect.getMetadata(MARKS, method) ?? [];
}

/** Returns the receiver's injection token, for `inject`, `app.get` and `overrideProvider`. */
export function getReceiverToken(): string {
  return RECEIVER;
}

/** Injects the module's receiver. It can run handlers as soon as the app reaches `onApplicationBootstrap`. */
export function InjectReceiver(): PropertyDecorator & ParameterDecorator {
  return Inject(RECEIVER);
}

interface ProviderMethod extends Mark {
  readonly wrapper: ReturnType<DiscoveryService['getProviders']>[number];
  readonly key: string;
  readonly method: object;
  readonly title: string;
}

/** Runs before Nest creates instances, so that an injected receiver already has its handlers. */
function findHandlers(discovery: DiscoveryService, scanner: MetadataScanner): readonly ProviderMethod[] {
  const methods = [...discovery.getProviders(), ...discovery.getControllers()]
    .filter(({ isAlias }) => !isAlias)
    .flatMap((wrapper): ProviderMethod[] => {
      const { isNotMetatype, metatype, token, host } = wrapper;
      // For a factory, and for a value that replaces a provider in a test, the class is the token.
      const type = isNotMetatype ? token : metatype;
      const prototype: unknown = typeof type === 'function' ? type.prototype : undefined;
      if (typeof prototype !== 'object' || prototype === null) return [];
      return scanner.getAllMethodNames(prototype).flatMap((key) =>
        marksOf(Reflect.get(prototype, key)).map((mark) => {
          const title = `${prototype.constructor.name}.${key} (${host?.name})`;
          return { ...mark, wrapper, key, method: Reflect.get(prototype, key), title };
        }),
      );
    });
  for (const type of EVENT_TYPES) {
    const titles = methods.filter((method) => method.type === type).map(({ title }) => title);
    if (titles.length < 2) continue;
    throw new ConfigError(
      `OnEvent: \`${type}\` has more than one handler: ${titles.join(', ')}. Each event runs only once, so keep one method and let it call the others.`,
    );
  }
  return methods;
}

function toHandlers(methods: readonly ProviderMethod[]): Handlers<unknown> {
  const handlers = methods.map(({ type, schema, wrapper, key, method }) => {
    const call = (event: WebhookEvent<EventType, unknown>, context: HandlerContext<unknown>): unknown =>
      wrapper.instance[key](event, context);
    const handler = wrapping(method, call);
    return [type, schema === undefined ? handler : withPayload(schema, handler)];
  });
  return Object.fromEntries(handlers);
}

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN: OPTIONS } =
  new ConfigurableModuleBuilder<StablehooksModuleOptions>({ moduleName: 'Stablehooks' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createStablehooksOptions')
    .build();

@Injectable()
class Lifecycle implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  readonly #receiver: Receiver;
  readonly #methods: readonly ProviderMethod[];
  readonly #options: StablehooksModuleOptions;

  constructor(
    @Inject(RECEIVER) receiver: Receiver,
    @Inject(HANDLERS) methods: readonly ProviderMethod[],
    @Inject(OPTIONS) options: StablehooksModuleOptions,
  ) {
    this.#receiver = receiver;
    this.#methods = methods;
    this.#options = options;
  }

  // Nest determines the scope of a provider only after it has resolved the provider's dependencies.
  onModuleInit(): void {
    for (const { wrapper, title } of this.#methods) {
      if (!wrapper.isTransient && wrapper.isDependencyTreeStatic()) continue;
      throw new ConfigError(
        `OnEvent: ${title} is in a provider that is request-scoped or transient, or that depends on a request-scoped provider. Stored events run outside of any request, so move the method to a provider with the default scope.`,
      );
    }
  }

  onApplicationBootstrap(): void {
    const { queue, start } = this.#options;
    if (this.#methods.length === 0 && queue === undefined) {
      logger.warn(
        'No provider has a method with @OnEvent, so new events get a 200 but no handler runs. Add the class that contains the handlers to `providers`.',
      );
    }
    if (start) this.#receiver.start(start === true ? {} : start);
  }

  // This is the first step of a shutdown. Nest destroys the imported modules afterwards.
  onModuleDestroy(): Promise<void> {
    return this.#receiver.close();
  }
}

interface ExpressApp {
  all(path: string, handler: ReturnType<typeof toExpressHandler>): unknown;
}

/** The route runs before Nest's parsers, middleware and guards, so that nothing reads the signed bytes first. */
async function registerRoute(host: HttpAdapterHost, path: string, receiver: Receiver): Promise<void> {
  const register = (): PromiseLike<unknown> | undefined => {
    const platform = host.httpAdapter?.getType();
    if (platform === 'express') {
      host.httpAdapter.getInstance<ExpressApp>().all(path, toExpressHandler(receiver));
    } else if (platform === 'fastify') {
      const app = host.httpAdapter.getInstance<FastifyInstance>();
      return app.register(toFastifyPlugin(receiver), { prefix: path === '/' ? '' : path });
    } else if (platform) {
      throw new ConfigError(
        `StablehooksModule: the platform ${platform} is neither Express nor Fastify. Use createReceiver with toNodeHandler from stablehooks/node.`,
      );
    }
    return undefined;
  };
  // Once the plugin is loaded, its scope does not inherit the hooks and middleware that `main.ts` adds.
  if (host.httpAdapter) await register();
  // A testing module receives its platform in `createNestApplication`, and a worker has no platform.
  else host.init$?.subscribe(() => void register());
}

/**
 * Adds a receiver and its route to a Nest app. The route runs before Nest's parsers, middleware, guards and interceptors,
 * so the route can read the signed bytes whatever you set for `bodyParser` and `rawBody`. The receiver's handlers are the
 * methods marked with {@link OnEvent} in all providers and controllers of the app.
 *
 * The receiver closes when Nest calls `onModuleDestroy`. Nest does so on `app.close()` and, if you have called
 * `app.enableShutdownHooks()`, on shutdown signals. New deliveries then get a 503, and the shutdown waits for deliveries
 * that are already verified, for up to `leaseMs`. The receiver logs to Nest's logger unless you pass a `logger`.
 *
 * The app fails to start with `ERR_CONFIG_INVALID` when an option is invalid, when a type is unknown or has two handlers,
 * when a handler's provider is request-scoped or transient, or when the platform is neither Express nor Fastify.
 *
 * @example
 * ```ts
 * StablehooksModule.forRoot({ path: '/hooks', secret: process.env['STABLEHOOKS_SECRET'] ?? '', start: true });
 * StablehooksModule.forRootAsync({
 *   imports: [ConfigModule],
 *   inject: [ConfigService],
 *   useFactory: (config: ConfigService) => ({ secret: config.getOrThrow('STABLEHOOKS_SECRET') }),
 * });
 * ```
 */
@Module({
  imports: [DiscoveryModule],
  providers: [
    { provide: HANDLERS, inject: [DiscoveryService, MetadataScanner], useFactory: findHandlers },
    {
      provide: RECEIVER,
      inject: [OPTIONS, HANDLERS],
      useFactory: (
        { path, start, logger: own = logger, ...options }: StablehooksModuleOptions,
        methods: readonly ProviderMethod[],
      ): Receiver => createReceiver({ ...options, logger: own, handlers: toHandlers(methods) }),
    },
    {
      provide: ROUTE,
      inject: [OPTIONS, RECEIVER, HttpAdapterHost],
      useFactory: (
        { path = '/hooks' }: StablehooksModuleOptions,
        receiver: Receiver,
        host: HttpAdapterHost,
      ) => registerRoute(host, path, receiver),
    },
    Lifecycle,
  ],
  exports: [RECEIVER],
})
export class StablehooksModule extends ConfigurableModuleClass {}
