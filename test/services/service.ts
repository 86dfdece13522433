/** A server that the tests start, take away and bring back. */
export interface Service {
  readonly port: number;
  readonly url: string;
  /** Ends every connection and comes back with the same data. */
  restart(): Promise<void>;
  /** Ends every connection; `start` brings it back. */
  halt(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}
