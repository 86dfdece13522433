/** `stablehooks/nest`: the module for NestJS 11 and 12, on Express and on Fastify. */
import {
  type DynamicModule,
  Inject,
  type InjectionToken,
  Logger,
  type ModuleMetadata,
  type OptionalFactoryDependency,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { ConfigError } from '../core/errors.js';
import {
  EVENT_TYPES,
  type EventType,
  isEventType,
  type StandardSchema,
  type UnknownPayload,
  type WebhookEvent,
} from '../core/events.js';
import { boolean, func, nearestName, readOptions, required, rule, string } from '../core/options.js';
import {
  type HandlerContext,
  type Handlers,
  isStandardSchema,
  type ReceiverOptions,
  SECRET_GIVEN,
} from '../receiver/options.js';
import type { Outcome } from '../receiver/outcome.js';
import { createReceiver, type Receiver } from '../receiver/receiver.js';
import { toFastifyPlugin } from './fastify.js';
import { createNodeHandler, type NodeHandler } from './node-body.js';

const FIX =
  'The receiver is in front of all that is registered after `NestFactory.create`. Move the parser below it: `const app = await NestFactory.create(AppModule, new ExpressAdapter(server)); app.use(express.json());`.';

const DEFAULT_NAME = 'default';
const DEFAULT_PATH = '/hooks';

/** Where `OnEvent` notes the methods of a class: on its prototype, so that several copies of this package agree. */
const MARKS = Symbol.for('stablehooks.nest.marks');
/** Where `OnEvent` notes these prototypes: on the global object, so that several copies of this package agree. */
const MARKED = Symbol.for('stablehooks.nest.marked');
const REGISTRATION = Symbol.for('stablehooks.nest.registration');
const OPTIONS = Symbol.for('stablehooks.nest.options');
const HANDLERS = Symbol.for('stablehooks.nest.handlers');
const LIFECYCLE = Symbol.for('stablehooks.nest.lifecycle');

/** Options of a receiver in Nest: those of `createReceiver`. Handlers and their schemas are given by {@link OnEvent}. */
export interface NestReceiverOptions<Tx = undefined>
  extends Omit<ReceiverOptions<Record<never, never>, Tx>, 'handlers' | 'payloads'> {}

/** What distinguishes the receivers of an app. */
export interface NestReceiverPlace {
  /** The name of the receiver, for {@link OnEvent} and {@link InjectReceiver}. @default 'default' */
  readonly name?: string | undefined;
  /**
   * The whole path of the URL, such as `/hooks`. Neither the global prefix nor a version is put in front of it.
   *
   * @default '/hooks'
   */
  readonly path?: string | undefined;
  /** Whether all modules can inject the receiver without importing this one. @default false */
  readonly isGlobal?: boolean | undefined;
}

/** Options of {@link StablehooksModule.forRoot}. */
export interface StablehooksModuleOptions<Tx = undefined>
  extends NestReceiverOptions<Tx>,
    NestReceiverPlace {}

/** Options of {@link StablehooksModule.forRootAsync}. */
export interface StablehooksModuleAsyncOptions<Tx = undefined> extends NestReceiverPlace {
  /** The modules whose providers `inject` names. @default none */
  readonly imports?: ModuleMetadata['imports'] | undefined;
  /** The providers that `useFactory` gets, in order. @default none */
  readonly inject?: readonly (InjectionToken | OptionalFactoryDependency)[] | undefined;
  /** Returns the options of the receiver. */
  readonly useFactory: (...injected: never[]) => NestReceiverOptions<Tx> | Promise<NestReceiverOptions<Tx>>;
}

/** Options of {@link OnEvent}. */
export interface OnEventOptions<Schema extends StandardSchema | undefined = undefined> {
  /** The name of the receiver. @default 'default' */
  readonly receiver?: string | undefined;
  /** A Standard Schema that checks and narrows the payload. @default none: an object of unknown content */
  readonly payload?: Schema;
}

/** The payload that a handler with this schema gets. */
type PayloadBy<Schema> = Schema extends StandardSchema<infer Output> ? Output : UnknownPayload;

/** A method that handles the event. The type of the transaction is what its inbox gives. */
type HandlerMethod<Type extends EventType, Payload> = (
  event: WebhookEvent<Type, Payload>,
  context: HandlerContext<never>,
) => void | Promise<void>;

/** A decorator of methods that accept this event. */
export type EventDecorator<Type extends EventType, Payload = UnknownPayload> = <
  Method extends HandlerMethod<Type, Payload>,
>(
  target: object,
  key: string | symbol,
  descriptor: TypedPropertyDescriptor<Method>,
) => void;

/** A method that is marked as a handler. */
interface Mark {
  readonly key: string | symbol;
  readonly type: EventType;
  readonly receiver: string;
  readonly payload: StandardSchema | undefined;
}

/**
 * Makes a method of a provider or controller the handler of an event type. Each type of a receiver has one handler.
 * The provider must not be request-scoped or transient. Throw for a retry; throw `PermanentError` when a retry cannot
 * help. Guards, pipes, interceptors and filters of Nest do not apply.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the type is unknown, an option is wrong, or it does not decorate a
 * method of instances.
 *
 * @example
 * ```ts
 * @Injectable()
 * class Settlements {
 *   @OnEvent('transfer.settled')
 *   async settled(event: WebhookEvent<'transfer.settled'>) {}
 * }
 * ```
 */
export function OnEvent<const Type extends EventType, Schema extends StandardSchema | undefined = undefined>(
  type: Type,
  options: OnEventOptions<Schema> = {},
): EventDecorator<Type, PayloadBy<Schema>> {
  if (typeof type !== 'string' || !isEventType(type)) {
    throw new ConfigError(
      `OnEvent: \`${String(type)}\` is no event type. ${didYouMean(String(type), EVENT_TYPES, 'The types are')}`,
    );
  }
  const { receiver, payload } = readOptions('OnEvent', options, {
    receiver: string(DEFAULT_NAME),
    payload: rule('a Standard Schema', isStandardSchema),
  });
  return (target, key) => {
    // The decorators of ECMAScript get the function and an object.
    if (typeof key === 'object') {
      throw new ConfigError(
        'OnEvent: it was called as a decorator of ECMAScript. Set `"experimentalDecorators": true` in tsconfig.json, as Nest needs.',
      );
    }
    if (typeof target === 'function') {
      throw new ConfigError(
        `OnEvent: ${target.name}.${String(key)} is static. Decorate a method of the instances that Nest makes.`,
      );
    }
    const marks = [...ownMarks(target), { key, type, receiver, payload }];
    Object.defineProperty(target, MARKS, { value: marks, configurable: true });
    markedPrototypes().add(target);
  };
}

/** The token of a receiver, for `inject` and `overrideProvider`. */
export function getReceiverToken(name: string = DEFAULT_NAME): string {
  return name === DEFAULT_NAME ? 'StablehooksReceiver' : `StablehooksReceiver(${name})`;
}

/**
 * Injects a {@link Receiver}, such as for `createPoller` or `receiver.run()`. Run it in `onApplicationBootstrap` or
 * later: before, its handlers fail.
 *
 * @param name - of the receiver; by default `default`.
 */
export function InjectReceiver(name?: string): PropertyDecorator & ParameterDecorator {
  return Inject(getReceiverToken(name));
}

/**
 * A receiver with a route of its own. The route is in front of Nest's parsers, middleware, guards and interceptors, so
 * that it gets the bytes that were signed, whatever `bodyParser` and `rawBody` are. Handlers are the methods with
 * {@link OnEvent} of all providers and controllers of the app.
 *
 * `app.close()` and, after `app.enableShutdownHooks()`, signals close the receiver in `onModuleDestroy`: new deliveries
 * are answered 503, and verified ones end first, at the latest after `leaseMs`. Lines go to Nest's logger, unless
 * `logger` is given.
 *
 * The app does not start, with `ERR_CONFIG_INVALID`, when two receivers share a name or a path, a handler names a
 * receiver that does not exist, a type has two handlers, the provider of a handler is request-scoped or transient, or
 * the platform is neither Express nor Fastify. A handler in a module that `LazyModuleLoader` loads later never runs: an
 * error is logged when the first event of its type arrives.
 */
export class StablehooksModule {
  /**
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or `secret` is missing. The values of the
   * receiver's options are checked when the app is created.
   *
   * @example
   * ```ts
   * StablehooksModule.forRoot({ path: '/hooks', secret: process.env['WEBHOOK_SECRET'] ?? '' })
   * ```
   */
  static forRoot<Tx = undefined>(options: StablehooksModuleOptions<Tx>): DynamicModule {
    const rules = { ...placeRules(), ...receiverRules() };
    const { name, path, isGlobal, ...receiver } = readOptions('StablehooksModule.forRoot', options, rules);
    return toModule({ name, path, isGlobal }, [], { provide: OPTIONS, useValue: receiver });
  }

  /**
   * As {@link StablehooksModule.forRoot}, with options that a function returns when the app is created.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or wrong.
   *
   * @example
   * ```ts
   * StablehooksModule.forRootAsync({
   *   imports: [ConfigModule],
   *   inject: [ConfigService],
   *   useFactory: (config: ConfigService) => ({ secret: config.getOrThrow('WEBHOOK_SECRET') }),
   * })
   * ```
   */
  static forRootAsync<Tx = undefined>(options: StablehooksModuleAsyncOptions<Tx>): DynamicModule {
    const { name, path, isGlobal, imports, inject, useFactory } = readOptions(
      'StablehooksModule.forRootAsync',
      options,
      {
        ...placeRules(),
        imports: rule('an array of modules', Array.isArray),
        inject: rule('an array of tokens', Array.isArray),
        useFactory: required(func()),
      },
    );
    return toModule({ name, path, isGlobal }, imports ?? [], {
      provide: OPTIONS,
      inject: [...(inject ?? [])],
      useFactory: async (...injected: never[]) =>
        readOptions(
          'StablehooksModule.forRootAsync `useFactory`',
          await useFactory(...injected),
          receiverRules(),
        ),
    });
  }
}

/** One receiver of the app. */
interface Registration {
  readonly name: string;
  readonly path: string;
  /** The inbox in which this receiver marks events done; `undefined` behind a queue, where workers do, and if it is lazy. */
  inbox?: object | undefined;
}

function placeRules() {
  return {
    name: string(DEFAULT_NAME),
    path: rule(
      'a path such as /hooks, without parameters and without a slash at its end',
      isPath,
      DEFAULT_PATH,
    ),
    isGlobal: boolean(false),
  };
}

/** Only characters that the routers of Express and Fastify take as they are. */
function isPath(value: unknown): boolean {
  return typeof value === 'string' && /^(?:\/|(?:\/[\w.~-]+)+)$/.test(value);
}

/** Only the names: `createReceiver` checks the values. */
function receiverRules() {
  const given = rule('given', () => true);
  return {
    secret: SECRET_GIVEN,
    inbox: given,
    queue: given,
    acknowledge: given,
    orderingKey: given,
    maxConcurrency: given,
    onUnknown: given,
    logger: given,
    onOutcome: given,
    telemetry: given,
    signatureHeader: given,
    encoding: given,
    signaturePrefix: given,
    maxBodyBytes: given,
    bodyTimeoutMs: given,
    secretTimeoutMs: given,
    leaseMs: given,
    handlerTimeoutMs: given,
    maxAttempts: given,
    runtime: given,
  };
}

function toModule(
  {
    name,
    path,
    isGlobal,
  }: Required<{ [Key in keyof NestReceiverPlace]: NonNullable<NestReceiverPlace[Key]> }>,
  imports: NonNullable<ModuleMetadata['imports']>,
  options: NonNullable<ModuleMetadata['providers']>[number],
): DynamicModule {
  const registration: Registration = { name, path };
  const token = getReceiverToken(name);
  const module: DynamicModule = {
    module: StablehooksModule,
    imports: [DiscoveryModule, ...imports],
    providers: [
      { provide: REGISTRATION, useValue: registration },
      options,
      {
        provide: HANDLERS,
        inject: [DiscoveryService],
        useFactory: (discovery: DiscoveryService) => new ProviderHandlers(registration, discovery),
      },
      {
        provide: token,
        inject: [OPTIONS, HANDLERS],
        useFactory: (given: NestReceiverOptions<unknown>, handlers: ProviderHandlers) => {
          const { inbox, queue, onOutcome, logger = new Logger(StablehooksModule.name) } = given;
          registration.inbox = typeof inbox === 'object' && queue === undefined ? inbox : undefined;
          const observed = (outcome: Outcome) => {
            if (outcome.kind === 'ignored') handlers.reportLate(outcome.event?.type, logger);
            return onOutcome?.(outcome);
          };
          return createReceiver({
            ...given,
            logger,
            // Otherwise `createReceiver` refuses it.
            onOutcome: onOutcome === undefined || typeof onOutcome === 'function' ? observed : onOutcome,
            ...handlers.toOptions(),
          });
        },
      },
      {
        provide: LIFECYCLE,
        inject: [token, OPTIONS, HANDLERS, HttpAdapterHost],
        useFactory: async (
          receiver: Receiver,
          given: NestReceiverOptions<unknown>,
          handlers: ProviderHandlers,
          host: HttpAdapterHost,
        ) => {
          const lifecycle = new Lifecycle({
            receiver,
            handlers,
            host,
            needsHandlers: given.queue === undefined,
          });
          if (host.httpAdapter) await mount(host, path, receiver);
          // A testing module gets it with `createNestApplication`.
          else host.init$.subscribe(() => lifecycle.awaitBeforeInit(mount(host, path, receiver)));
          return lifecycle;
        },
      },
    ],
    exports: [token],
  };
  if (!isGlobal) return module;
  // Nest destroys global modules last, so the module that closes the receiver is not global itself.
  return { module: GlobalStablehooksModule, global: true, imports: [module], exports: [module] };
}

/** Makes the receiver of the module that it imports known to all modules. */
class GlobalStablehooksModule {}

/** Before `NestFactory.create` returns, so in front of everything that `main.ts` and Nest register. */
async function mount({ httpAdapter }: HttpAdapterHost, path: string, receiver: Receiver): Promise<void> {
  switch (httpAdapter?.getType()) {
    case 'express': {
      const app = httpAdapter.getInstance<{ all(path: string, handler: NodeHandler): void }>();
      app.all(
        path,
        createNodeHandler((request) => receiver.receive(request), FIX),
      );
      return;
    }
    case 'fastify': {
      const app = httpAdapter.getInstance<FastifyInstance>();
      const plugin: FastifyPluginAsync = async (scope, options) => {
        // Nest gives each scope the middleware of all modules by this method.
        Object.defineProperty(scope, 'use', { value: () => scope });
        await toFastifyPlugin(receiver).call(scope, scope, options);
      };
      // Once it is loaded, its scope gets none of the middleware that `main.ts` adds.
      await app.register(plugin, { prefix: path === '/' ? '' : path });
      return;
    }
  }
}

type Wrapper = ReturnType<DiscoveryService['getProviders']>[number];

/** A marked method of a provider. */
interface HandlerOfProvider extends Mark {
  readonly wrapper: Wrapper;
  readonly title: string;
}

/**
 * The handlers of one receiver. They are found by the classes of the app before there are instances, so that the
 * receiver is complete when it is injected.
 */
class ProviderHandlers {
  readonly registration: Registration;
  readonly #discovery: DiscoveryService;
  readonly #methods = new Map<EventType, HandlerOfProvider>();
  readonly #registrations: readonly Registration[];
  /** Those of all receivers. */
  readonly #marks: Mark[] = [];
  /** The prototypes of the providers that were there before the start. */
  readonly #claimed = new Set<object>();
  readonly #reported = new Set<string>();
  #started = false;

  constructor(registration: Registration, discovery: DiscoveryService) {
    this.registration = registration;
    this.#discovery = discovery;
    const registrations = this.#wrappers()
      .filter(({ token }) => token === REGISTRATION)
      .map(({ instance }) => instance as Registration);
    this.#registrations = registrations;
    for (const other of registrations) if (other !== registration) assertDistinct(registration, other);
    const names = registrations.map(({ name }) => name);
    for (const wrapper of this.#wrappers()) {
      for (const prototype of prototypesOf(wrapper).flatMap(chainOf)) this.#claimed.add(prototype);
      for (const mark of marksOfProvider(wrapper)) this.#add(wrapper, mark, names);
    }
  }

  #wrappers(): readonly Wrapper[] {
    const all = [...this.#discovery.getProviders(), ...this.#discovery.getControllers()];
    return all.filter(({ isAlias }) => !isAlias);
  }

  #add(wrapper: Wrapper, mark: Mark, names: readonly string[]): void {
    const title = titleOf(wrapper, mark);
    this.#marks.push(mark);
    if (!names.includes(mark.receiver)) {
      throw new ConfigError(
        `OnEvent: ${title} names the receiver \`${mark.receiver}\`, which no StablehooksModule has. ${didYouMean(mark.receiver, names, 'The receivers are')}`,
      );
    }
    if (mark.receiver !== this.registration.name) return;
    const first = this.#methods.get(mark.type);
    if (first !== undefined) {
      throw new ConfigError(
        `OnEvent: ${first.title} and ${title} both handle \`${mark.type}\` of the receiver \`${mark.receiver}\`. An event is done once for one handler: keep one method, and let it call the other.`,
      );
    }
    this.#methods.set(mark.type, { ...mark, wrapper, title });
  }

  get found(): readonly HandlerOfProvider[] {
    return [...this.#methods.values()];
  }

  /** The handlers and their schemas, as `createReceiver` takes them. */
  toOptions(): Pick<ReceiverOptions<Record<never, never>, unknown>, 'handlers' | 'payloads'> {
    const handlers = this.found.map((handler) => [
      handler.type,
      (event: WebhookEvent, context: HandlerContext<unknown>) => this.#call(handler, event, context),
    ]);
    const payloads = this.found.flatMap(({ type, payload }) =>
      payload === undefined ? [] : [[type, payload]],
    );
    return {
      handlers: Object.fromEntries(handlers) as Handlers<Record<never, never>, unknown>,
      payloads: Object.fromEntries(payloads),
    };
  }

  #call(
    { wrapper, key, title }: HandlerOfProvider,
    event: WebhookEvent,
    context: HandlerContext<unknown>,
  ): void | Promise<void> {
    if (!this.#started) {
      throw new ConfigError(
        `${title} cannot run before the app has started. Use the receiver in onApplicationBootstrap or later, and import StablehooksModule in a module that is not loaded lazily.`,
      );
    }
    return wrapper.instance[key](event, context);
  }

  /**
   * Checks what is known only once there are instances, and lets handlers run.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID`
   */
  start(): void {
    const found = new Set(this.found.map(({ wrapper }) => wrapper.instance));
    for (const { wrapper, key, title } of this.found) {
      if (!isStatic(wrapper)) throw notStatic(title);
      if (typeof wrapper.instance?.[key] !== 'function') {
        throw new ConfigError(
          `OnEvent: the instance behind ${title} does not have this method. Provide one that has it.`,
        );
      }
    }
    for (const wrapper of this.#wrappers()) {
      if (found.has(wrapper.instance)) continue;
      const missed = marksOf(prototypeOf(wrapper.instance)).find(
        ({ receiver }) => receiver === this.registration.name,
      );
      if (missed === undefined) continue;
      throw new ConfigError(
        wrapper.isNotMetatype
          ? `OnEvent: the provider ${titleOf(wrapper, missed)} comes from a factory, and its token is not its class. Use the class as \`provide\`.`
          : `OnEvent: the provider ${titleOf(wrapper, missed)} is in a module that was loaded after the receiver was made. Import the module in one that is not loaded lazily.`,
      );
    }
    for (const wrapper of this.#opaqueFactories()) {
      const missed = wrapper
        .getStaticTransientInstances()
        .flatMap((made) => marksOf(prototypeOf(made?.instance)))
        .find(({ receiver }) => receiver === this.registration.name);
      if (missed !== undefined) throw notStatic(titleOf(wrapper, missed));
    }
    this.#started = true;
  }

  /** The marks of this receiver whose class is that of no provider: of another app, forgotten, or of a factory. */
  #unclaimed(): readonly { readonly className: string; readonly mark: Mark }[] {
    return [...markedPrototypes()]
      .filter((prototype) => !this.#claimed.has(prototype))
      .flatMap((prototype) =>
        ownMarks(prototype)
          .filter(({ receiver }) => receiver === this.registration.name)
          .map((mark) => ({ className: prototype.constructor.name, mark })),
      );
  }

  /** Factories of the app that Nest calls for each request or each use: what they make is not known at start. */
  #opaqueFactories(): readonly Wrapper[] {
    return this.#wrappers().filter(
      (wrapper) =>
        wrapper.isFactory &&
        !isStatic(wrapper) &&
        wrapper.host?.name !== 'InternalCoreModule' &&
        marksOfProvider(wrapper).length === 0,
    );
  }

  /** What may be a handler that a factory makes out of sight, to be logged at start; `undefined` for nothing. */
  get suspected(): string | undefined {
    const marks = this.#unclaimed().filter(({ mark }) => !this.#methods.has(mark.type));
    const factories = this.#opaqueFactories().map(({ name, host }) => `${String(name)} (${host?.name})`);
    if (marks.length === 0 || factories.length === 0) return undefined;
    const methods = marks.map(({ className, mark }) => `${className}.${String(mark.key)}`);
    return `no provider has the class of ${methods.join(', ')}, and these factories are request-scoped or transient: ${factories.join(', ')}. If one of them makes it, its handler never runs: move the method to a provider of the default scope.`;
  }

  /** What is wrong with the inbox that this receiver shares with another, to be logged at start; `undefined` for nothing. */
  get conflict(): string | undefined {
    const typesOf = (name: string) =>
      EVENT_TYPES.filter((type) => this.#marks.some((mark) => mark.receiver === name && mark.type === type));
    const { name, inbox } = this.registration;
    const own = typesOf(name).join(', ');
    // Of two receivers, one says it.
    const before = this.#registrations.slice(0, this.#registrations.indexOf(this.registration));
    const other = before.find(
      (each) => inbox !== undefined && each.inbox === inbox && typesOf(each.name).join(', ') !== own,
    );
    if (other === undefined) return undefined;
    return `it shares its inbox with the receiver \`${other.name}\`, which handles other types (${typesOf(other.name).join(', ') || 'none'}). An event of a type without a handler is recorded as done, and the other receiver does not run it either. Give each its own inbox, or both the same handlers.`;
  }

  /** Logs, once for each type, that an event was ignored whose handler is in a module that was loaded after the start. */
  reportLate(type: string | undefined, logger: Pick<Logger, 'error'>): void {
    if (type === undefined || this.#reported.has(type)) return;
    const isMissed = (mark: Mark) => mark.type === type && mark.receiver === this.registration.name;
    if (!this.#unclaimed().some(({ mark }) => isMissed(mark))) return;
    for (const wrapper of this.#wrappers()) {
      const marks = [...marksOfProvider(wrapper), ...marksOf(prototypeOf(wrapper.instance))];
      const missed = marks.find(isMissed);
      if (missed === undefined) continue;
      this.#reported.add(type);
      logger.error(
        `OnEvent: ${titleOf(wrapper, missed)} never runs, because its module was loaded after the start. Events of the type ${type} are answered 200 and recorded as done. Import the module in one that is not loaded lazily.`,
      );
      return;
    }
  }
}

function isStatic(wrapper: Wrapper): boolean {
  return !wrapper.isTransient && wrapper.isDependencyTreeStatic();
}

function notStatic(title: string): ConfigError {
  return new ConfigError(
    `OnEvent: ${title} is in a provider that is request-scoped or transient, or depends on a request-scoped one. A stored event runs without a request: move the method to a provider of the default scope.`,
  );
}

function assertDistinct(one: Registration, other: Registration): void {
  if (one.name === other.name) {
    throw new ConfigError(
      `StablehooksModule: two receivers have the name \`${one.name}\`. Give each its own \`name\`, or import one module from both places.`,
    );
  }
  // Express does not tell `/hooks` from `/Hooks`: the first receiver would take the deliveries of both.
  if (one.path.toLowerCase() === other.path.toLowerCase()) {
    throw new ConfigError(
      `StablehooksModule: the receivers \`${one.name}\` and \`${other.name}\` have the path ${one.path}. Give each its own \`path\`, different in more than upper and lower case.`,
    );
  }
}

/** The marks of a provider, by its class. A factory, or a value that replaces it in a test, has the class as token. */
function marksOfProvider(wrapper: Wrapper): readonly Mark[] {
  return (
    prototypesOf(wrapper)
      .map(marksOf)
      .find((marks) => marks.length > 0) ?? []
  );
}

function prototypesOf({ isNotMetatype, metatype, token, instance, inject }: Wrapper): readonly object[] {
  const prototypes: readonly (object | undefined)[] = [
    isNotMetatype ? undefined : metatype?.prototype,
    typeof token === 'function' ? token.prototype : undefined,
    // A factory can have run or not.
    isNotMetatype && !inject ? prototypeOf(instance) : undefined,
  ];
  return prototypes.filter((prototype) => prototype !== undefined);
}

/** The prototype and those that it extends. */
function chainOf(prototype: object | undefined): readonly object[] {
  return prototype === undefined ? [] : [prototype, ...chainOf(prototypeOf(prototype))];
}

function prototypeOf(instance: unknown): object | undefined {
  return typeof instance === 'object' && instance !== null
    ? (Object.getPrototypeOf(instance) ?? undefined)
    : undefined;
}

/** The marks of a class and of those that it extends. A method that is overridden keeps its mark. */
function marksOf(prototype: object | undefined): readonly Mark[] {
  const marks: Mark[] = [];
  for (const each of chainOf(prototype)) {
    const keys = new Set(marks.map(({ key }) => key));
    marks.push(...ownMarks(each).filter(({ key }) => !keys.has(key)));
  }
  return marks;
}

/** All prototypes of this process that have marks, whichever app their classes belong to. */
function markedPrototypes(): Set<object> {
  const holder = globalThis as { [MARKED]?: Set<object> };
  holder[MARKED] ??= new Set();
  return holder[MARKED];
}

function ownMarks(prototype: object): readonly Mark[] {
  return Object.getOwnPropertyDescriptor(prototype, MARKS)?.value ?? [];
}

/** Class, method and module, for messages. */
function titleOf({ name, host }: Wrapper, { key }: Mark): string {
  return `${String(name)}.${String(key)} (${host?.name})`;
}

function didYouMean(typed: string, names: readonly string[], all: string): string {
  const nearest = nearestName(typed, names);
  return nearest === undefined ? `${all} ${names.join(', ')}.` : `Did you mean \`${nearest}\`?`;
}

/** Starts and ends a receiver with its app: Nest calls these methods. */
class Lifecycle {
  readonly #receiver: Receiver;
  readonly #handlers: ProviderHandlers;
  readonly #host: HttpAdapterHost;
  readonly #needsHandlers: boolean;
  #mounted: Promise<void> | undefined;

  constructor(parts: {
    readonly receiver: Receiver;
    readonly handlers: ProviderHandlers;
    readonly host: HttpAdapterHost;
    readonly needsHandlers: boolean;
  }) {
    this.#receiver = parts.receiver;
    this.#handlers = parts.handlers;
    this.#host = parts.host;
    this.#needsHandlers = parts.needsHandlers;
  }

  /** The start fails as this does. */
  awaitBeforeInit(mounted: Promise<void>): void {
    this.#mounted = mounted;
    // `onModuleInit` reports it.
    mounted.catch(() => undefined);
  }

  async onModuleInit(): Promise<void> {
    await this.#mounted;
    // A worker has no server: its receiver is for `run`, the poller or a queue.
    const platform = this.#host.httpAdapter?.getType();
    if (platform && platform !== 'express' && platform !== 'fastify') {
      throw new ConfigError(
        `StablehooksModule: the platform ${platform} is neither Express nor Fastify. Use toNodeHandler(receiver) of stablehooks/node in a route of your own.`,
      );
    }
    this.#handlers.start();
  }

  onApplicationBootstrap(): void {
    const { registration, found, suspected, conflict } = this.#handlers;
    const logger = new Logger(StablehooksModule.name);
    const at = this.#host.httpAdapter ? ` at ${registration.path}` : '';
    const title = `Receiver \`${registration.name}\`${at}`;
    if (suspected !== undefined) logger.warn(`${title}: ${suspected}`);
    if (conflict !== undefined) logger.warn(`${title}: ${conflict}`);
    if (found.length === 0) {
      if (this.#needsHandlers) {
        logger.warn(
          `${title}: no provider has a method with @OnEvent for it, so events are answered 200 and nothing runs. Check that the class with the handlers is in \`providers\`.`,
        );
      }
      return;
    }
    const handlers = found.map(({ type, title }) => `${type} by ${title}`);
    const others = EVENT_TYPES.filter((type) => found.every((handler) => handler.type !== type));
    const ignored = others.length === 0 ? '' : `; without a handler: ${others.join(', ')}`;
    logger.log(`${title}: ${handlers.join(', ')}${ignored}`);
  }

  // The first step of a shutdown. Modules that this one imports, directly or not, are destroyed after it.
  onModuleDestroy(): Promise<void> {
    return this.#receiver.close();
  }
}
