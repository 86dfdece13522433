import { EVENT_TYPES, type EventType } from 'stablehooks';
import { outcomeOf } from '../io/answer.js';
import { type Check, type CheckResult, DELIVERY_CHECKS, LEAK_CHECK, REFUSAL_CHECKS } from './checks.js';
import { checkGenuine, type GenuineResult } from './diagnosis.js';
import { createTestedEndpoint, type EndpointOptions, TEST_TYPE, type TestedEndpoint } from './endpoint.js';

export type Row = CheckResult & Pick<Check, 'name' | 'expected'>;

export interface Examination {
  readonly type: string;
  readonly ids: ReadonlySet<string>;
  /** The ids of the test events that the endpoint claims to have in its inbox. */
  readonly stored: ReadonlySet<string>;
  readonly genuine: GenuineResult;
}

const checksOf = (runHandlers: boolean): readonly Check[] => [
  ...REFUSAL_CHECKS,
  ...DELIVERY_CHECKS.filter(({ runsHandlers = false }) => runHandlers || !runsHandlers),
  LEAK_CHECK,
];
const GENUINE = { name: 'genuine', expected: '2xx' } as const;

export const totalOf = (runHandlers: boolean): number => 1 + checksOf(runHandlers).length;

export const LEFT_OUT: readonly string[] = DELIVERY_CHECKS.flatMap(({ name, runsHandlers }) =>
  runsHandlers ? name : [],
);

const NO_HANDLER = `The endpoint ran no handler for any test event. It was tested with these types: ${EVENT_TYPES.join(', ')}. Register a handler for at least one of them.`;

const NOT_RUN: CheckResult = {
  verdict: 'not shown',
  got: 'not run',
  fix: 'Not run, because the genuine delivery was not accepted.',
};

type EventTypes = readonly [string, ...string[]];

const TYPES_TO_TRY: EventTypes = [
  'transfer.settled',
  ...EVENT_TYPES.filter((type) => type !== 'transfer.settled'),
];

export interface ExaminationOptions extends Omit<EndpointOptions, 'type'> {
  /** If handlers must not run, every test event has a type for which no handler exists. */
  readonly runHandlers: boolean;
  /** @default the first type that the endpoint does not ignore */
  readonly type?: EventType | undefined;
  readonly onGenuine?: (examination: Examination) => void;
  /** A check that `signal` interrupted has no row. */
  readonly onRow: (row: Row) => void;
}

export async function examineEndpoint(options: ExaminationOptions): Promise<Examination> {
  const { runHandlers, signal, onGenuine, onRow } = options;
  const only = runHandlers ? options.type : TEST_TYPE;
  const { endpoint, ...found } = await checkTypes(only === undefined ? TYPES_TO_TRY : [only], options);
  const { genuine } = found;
  onGenuine?.(found);
  const { answer, comparable, ...result } = genuine;
  const add = (row: Row) => {
    // The result of an interrupted check says nothing about the endpoint.
    if (!signal.aborted) onRow(row);
  };
  const isIgnored = only === undefined && outcomeOf(answer) === 'ignored';
  add({ ...GENUINE, ...result, fix: isIgnored ? NO_HANDLER : result.fix });
  for (const check of checksOf(runHandlers)) {
    if (signal.aborted) break;
    const isRefusal = REFUSAL_CHECKS.includes(check) || check === LEAK_CHECK;
    const hasLeaked = check === LEAK_CHECK && endpoint.leaks.size > 0;
    const shows = hasLeaked || (isRefusal ? comparable : result.verdict === 'pass');
    const { name, expected } = check;
    add({ name, expected, ...(shows ? await check.run(endpoint) : NOT_RUN) });
  }
  return found;
}

async function checkTypes(
  [type, next, ...others]: EventTypes,
  options: ExaminationOptions,
): Promise<Examination & { readonly endpoint: TestedEndpoint }> {
  const endpoint = createTestedEndpoint({ ...options, type });
  const genuine = await checkGenuine(endpoint, options.secret);
  const isOver = next === undefined || outcomeOf(genuine.answer) !== 'ignored' || options.signal.aborted;
  const { ids, stored } = endpoint;
  return isOver ? { type, endpoint, ids, stored, genuine } : checkTypes([next, ...others], options);
}
