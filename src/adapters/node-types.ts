/** Structural types for Node's request and response, so that the declarations compile without `@types/node`. */

/** Node's request (`IncomingMessage`), with the properties that frameworks and parsers add. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  pause(): unknown;
  /** Set by Express, Nest and Connect: the URL before a mounted router removed its prefix from `url`. */
  readonly originalUrl?: string | undefined;
  /** Set by Express: the bytes from `express.raw`, or the result of another parser. */
  readonly body?: unknown;
  /** Set by Nest, Google Cloud Functions and Firebase: the raw bytes, in addition to the parsed body. */
  readonly rawBody?: unknown;
}

/** Node's response (`ServerResponse`). */
export interface NodeResponse {
  readonly destroyed: boolean;
  readonly headersSent: boolean;
  writeHead(status: number, headers: Record<string, string | number>): unknown;
  end(body: string): unknown;
}

/** Never rejects. The declared return type is `void`, because linters complain about promises that a server ignores. */
export type NodeHandler = (request: NodeRequest, response: NodeResponse) => void;
