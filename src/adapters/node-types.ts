/** Node's request and response by their shapes, so the declarations compile without `@types/node`. */

/** Node's request (`IncomingMessage`), and the members where frameworks and parsers leave their results. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  pause(): unknown;
  /** Express, Nest, Connect: the URL before the prefix of a mounted router was removed from `url`. */
  readonly originalUrl?: string | undefined;
  /** Express: bytes of `express.raw`, or the result of another parser. */
  readonly body?: unknown;
  /** Nest, Google Cloud Functions, Firebase: the bytes, beside the parsed body. */
  readonly rawBody?: unknown;
}

/** Node's response (`ServerResponse`). */
export interface NodeResponse {
  readonly destroyed: boolean;
  readonly headersSent: boolean;
  writeHead(status: number, headers: Record<string, string | number>): unknown;
  end(body: string): unknown;
}

/**
 * Handles Node's own request and response. It returns a promise that never rejects, and `void` by its type, because linters
 * refuse a promise where a server ignores it.
 */
export type NodeHandler = (request: NodeRequest, response: NodeResponse) => void;
