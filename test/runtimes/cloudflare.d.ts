/** The part of `@cloudflare/workers-types` that examples/durable-object.ts uses. Install that package in your own project. */
declare module 'cloudflare:workers' {
  interface DurableObjectStorage {
    readonly sql: {
      exec(query: string, ...bindings: unknown[]): { toArray(): Record<string, string | number | null>[] };
    };
    transactionSync<Value>(closure: () => Value): Value;
    getAlarm(): Promise<number | null>;
    setAlarm(time: number): Promise<void>;
  }

  export abstract class DurableObject<Env> {
    protected readonly ctx: {
      readonly storage: DurableObjectStorage;
      waitUntil(work: Promise<unknown>): void;
    };
    protected readonly env: Env;
    fetch?(request: Request): Promise<Response>;
    alarm?(): Promise<void>;
  }

  export interface DurableObjectNamespace {
    getByName(name: string): { fetch(request: Request): Promise<Response> };
  }
}
