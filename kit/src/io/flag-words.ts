import { formatDuration } from './output.js';

/** The flag of each option that a command passes on to the packages, whose messages can name the option. */
export const FLAGS = {
  agentId: '--agent',
  allowlist: '--allow',
  baseUrl: '--base-url',
  by: '--by',
  chain: '--chain',
  copiedAt: '--copied-at',
  daily: '--daily',
  dateSkewMs: '--date-skew',
  disorderMs: '--disorder',
  encoding: '--encoding',
  from: '--from',
  initialBalance: '--balance',
  label: '--label',
  lagMs: '--lag',
  limit: '--limit',
  listCap: '--list-cap',
  listLagMs: '--list-lag',
  listMax: '--list-max',
  maxAttempts: '--max-attempts',
  maxLimit: '--max-limit',
  movementMs: '--movement-time',
  perTx: '--per-tx',
  prefix: '--prefix',
  reason: '--reason',
  retryBaseMs: '--retry-base',
  secret: '--secret-file',
  seed: '--seed',
  signatureHeader: '--header',
  since: '--since',
  timeoutMs: '--timeout',
  token: '--token-file',
  tokenExpiryMs: '--token-expiry',
  type: '--type',
  until: '--until',
  url: '--to',
} as const satisfies Readonly<Record<string, string>>;

/** Advice for programs, reworded for the command line. */
const PHRASES: readonly (readonly [RegExp, string])[] = [
  // No command has a flag for these options of the client.
  [/ \((?:timeoutMs|maxBodyBytes)\)/g, ''],
  [/^redisInbox: `prefix`/g, '--namespace'],
  [/^postgresInbox: `schema`/g, '--namespace'],
  [/^mysqlInbox: `prefix`/g, '--namespace'],
  [/: see `answer`/g, ': its answer follows'],
  [/ `answer` of this error contains the answer\./g, ' Its answer follows.'],
  [/`ids\.late` has them/g, '--json prints their ids'],
  [/\blistGaps shows/g, '`stablehooks gaps list` shows'],
  [/`listGaps` says/g, '`stablehooks gaps list --all` says'],
  [/`problems` says why/g, 'the problems say why'],
  [/ Call listWithProblems to get the other events\./g, ''],
  [/ Raise leaseMs if this happens often\./g, ''],
];

/** A number of ms after the name of an option, as messages write it: `lagMs to 300000`. */
const MS = /\b(\w+Ms`?(?: to| must be at most| must be at least)) (-?)(\d+)/g;

/** The name of an option in a message: between backticks, perhaps with a path, or a camelCase word. */
const OPTION = /`(?:\w+\.)*(\w+)`|\b([a-z]+[A-Z]\w*)\b/g;

/**
 * A message of the packages with flags instead of options, and durations in the form of flags. Names that are not options of
 * a command stay.
 *
 * @param interval - the command's name for the time between two polls.
 */
export function toFlagWords(text: string, interval = 'the time between polls'): string {
  const flags = new Map<string, string>([...Object.entries(FLAGS), ['intervalMs', interval]]);
  return PHRASES.reduce((words, [pattern, phrase]) => words.replaceAll(pattern, phrase), text)
    .replaceAll(MS, (_, before: string, sign: string, ms: string) => {
      return `${before} ${sign}${formatDuration(Number(ms))}`;
    })
    .replaceAll(OPTION, (name: string, quoted?: string, bare?: string) => {
      return flags.get(quoted ?? bare ?? '') ?? name;
    });
}
