/** `stablehooks-kit/inspector`: a web page that shows operators health, events and attempts, coverage and the sandbox. */
import * as z from 'zod/mini';
import { nonEmptyString, oneOf, readOptions } from '../sandbox/validation.js';
import { appAccess } from './access.js';
import type { ActionName } from './api.js';
import { ACTION_NAMES, createHandler } from './handler.js';
import type { InspectorSource } from './source.js';

export type { Finding as AttemptVerdict } from '../explain/replies.js';
export type {
  ActionInputs,
  ActionName,
  AttemptDetail,
  AttemptKind,
  AttemptLine,
  AttemptRow,
  EventCounts,
  EventFilter,
  EventPage,
  EventRow,
  EventState,
  Message,
  Selected,
  SelectedResult,
  ServiceReport,
  StreamEntry,
  Tone,
  View,
} from './api.js';
export { fromInbox, type InboxSourceOptions } from './inbox-source.js';
export { fromSandbox } from './sandbox-source.js';
export type {
  DeliveriesPart,
  EventQuery,
  InboxPart,
  InspectedInbox,
  InspectorSource,
  LastReport,
} from './source.js';

/** Options of `createInspector`. */
export interface InspectorOptions {
  /** Where the data comes from: `fromSandbox`, `fromInbox` or your own source. */
  readonly source: InspectorSource;
  /** The actions that the page allows. If there are none, the page is read-only. @default none */
  readonly actions?: readonly ActionName[] | undefined;
  /**
   * Decides whether a request is allowed to see the page and use its actions, for example by checking the operator's
   * session. It is called for each request. Only `true` allows the request. If the function throws, the request is
   * refused.
   */
  readonly authorize: (request: Request) => boolean | Promise<boolean>;
  /** The path of the page. Omit it if your framework removes the path from the URL. @default '/' */
  readonly basePath?: string | undefined;
}

/** An inspector to mount in an app. */
export interface Inspector {
  /** Responds to requests for the page, its files, its data and its actions. The promise never rejects. */
  fetch(request: Request): Promise<Response>;
  /** Stops watching the source, and disconnects every page. */
  close(): void;
}

const shape = {
  source: z.custom<InspectorSource>(
    (value) => typeof value === 'object' && value !== null && 'subscribe' in value,
    'must be a source, such as fromSandbox(sandbox) or fromInbox(inbox)',
  ),
  actions: z._default(z.array(oneOf(ACTION_NAMES), 'must be a list of actions'), []),
  authorize: z.custom<InspectorOptions['authorize']>(
    (value) => typeof value === 'function',
    'must be a function that decides which requests are allowed to see the page',
  ),
  basePath: z._default(nonEmptyString, '/'),
} satisfies Readonly<Record<keyof InspectorOptions, z.ZodMiniType>>;

/**
 * Creates an inspector to mount in an app.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` if an option is invalid. The message names the option.
 */
export function createInspector(options: InspectorOptions): Inspector {
  const { source, actions, authorize, basePath } = readOptions('createInspector', options, shape);
  const path = `/${basePath}/`.replace(/\/+/g, '/');
  return createHandler({ source, actions, basePath: path, access: appAccess(authorize) });
}
