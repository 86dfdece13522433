import { readFile } from 'node:fs/promises';
import { Command } from 'commander';
import { EVENT_TYPES, type EventType, isKnownEvent, type UnknownEvent } from 'stablehooks';
import { usageError } from '../io/errors.js';
import { addInboxFlags, hasInbox, type InboxFlags, withInbox } from '../io/inbox.js';
import { countAlike, countOf, EXIT, interruptedExit, type Paint, toPlain, toTable } from '../io/output.js';
import { replaceFile } from '../io/replace-file.js';
import {
  addAction,
  addServiceFlags,
  type CommandContext,
  collect,
  type Moment,
  parseCount,
  parseMoment,
  readInput,
  refuseFlags,
  toDate,
} from '../io/settings.js';
import {
  createdSince,
  type FoundEvents,
  inboxEvents,
  listEvents,
  parseEvents,
} from '../types/events-to-learn.js';
import { readSource, SourceError } from '../types/read-source.js';
import {
  compareShapes,
  type Difference,
  type Field,
  type LearningRules,
  type Shape,
  shapesInside,
  widen,
} from '../types/shape.js';
import { type LearnedPayloads, toSource } from '../types/source-text.js';

interface TypesFlags extends Partial<InboxFlags> {
  readonly out: string;
  readonly check?: boolean;
  readonly from?: string;
  readonly since?: Moment;
  readonly limit: number;
  readonly enum?: readonly string[];
  readonly map?: readonly string[];
  readonly keepKeys?: boolean;
}

export function typesCommand(): Command {
  const command = addInboxFlags(
    new Command('types')
      .description('learn zod schemas of payloads from real events')
      .requiredOption('--out <file>', 'TypeScript file to write; its present content is kept')
      .option('--check', 'write nothing, and fail if an event does not match the file')
      .option('--from <file>', 'events as a JSON array or one per line, - for stdin (default: the service)'),
    { required: false },
  )
    .option('--since <time>', 'only events created since then: 30d, 2026-01-31T12:00:00Z', parseMoment)
    .option('--limit <number>', 'how many events of each type to ask the service for', parseCount, 1_000)
    .option('--enum <field>', 'write the strings of this field into the file; repeatable', collect)
    .option('--map <field>', 'the keys of this object are data, such as ids; repeatable', collect)
    .option('--keep-keys', 'write keys that look like data but are names of fields');
  addServiceFlags(command);
  return addAction(command, learnTypes, [
    'stablehooks types --since 30d --out src/payloads.ts --enum redeem.failed.reason',
    'stablehooks types --since 1d --out src/payloads.ts --check',
  ]);
}

async function learnTypes(context: CommandContext<TypesFlags>) {
  const { flags, given, printer, signal } = context;
  refuseUnused(flags, given);
  const rules = readRules(flags);
  const before = await readLearned(flags.out);
  if (flags.check && before === undefined)
    throw usageError(`--out ${flags.out}: the file does not exist. Run the command without --check first.`);

  const found = await findEvents(context);
  for (const note of found.notes) printer.note(note);
  if (signal.aborted) return interruptedExit();
  const since = flags.since === undefined ? undefined : toDate(flags.since, Date.now());
  const selected = createdSince(found.events, since);
  const events = selected.filter(isKnownEvent);
  const unknown = selected.length - events.length;
  if (unknown > 0)
    printer.note(`Skipped: ${countOf(unknown, 'event')} of a type that this release does not know.`);
  if (found.malformed > 0)
    printer.note(
      `Skipped: ${countOf(found.malformed, 'element')} of the list that cannot be read as an event.`,
    );
  if (events.length === 0) {
    printer.print({
      text: `not shown: no events${since ? ' since then' : ''}. Nothing was ${flags.check ? 'compared' : 'written'}.`,
      data: { out: flags.out, changed: false, types: [], differences: [] },
    });
    return EXIT.failed;
  }

  const counts = new Map(countAlike(events.map(({ type }) => type)));
  const summary = { counts, before: before ?? new Map(), out: flags.out };
  if (flags.check) {
    const differs = printComparison(context, {
      ...summary,
      mismatches: findMismatches(events, summary.before),
    });
    // An element that isn't an event does not match the file either.
    return differs || found.malformed > 0 ? EXIT.failed : EXIT.good;
  }
  const learned = learn(events, summary.before, rules);
  checkRulesApplied(learned, flags);
  if (!flags.keepKeys) refuseIds(learned, summary);
  await writeLearned(context, { ...summary, learned, isNew: before === undefined });
  return EXIT.good;
}

function refuseUnused({ check, from, inbox }: TypesFlags, given: ReadonlySet<string>): void {
  if (from !== undefined && inbox !== undefined) throw usageError('Pass --from or --inbox, not both.');
  const source = from === undefined ? '--inbox' : '--from';
  if (from !== undefined || inbox !== undefined)
    refuseFlags(
      given,
      ['limit', 'baseUrl', 'tokenFile'],
      `has no effect with ${source}: the service is not called.`,
    );
  if (check)
    refuseFlags(
      given,
      ['enum', 'map', 'keepKeys'],
      'has no effect with --check: the file defines each field.',
    );
}

/** @throws {CommandError} exit 2 when a field does not begin with an event type. */
function readRules(flags: TypesFlags): LearningRules {
  for (const name of ['enum', 'map'] as const) {
    const wrong = flags[name]?.find(
      (field) => !EVENT_TYPES.some((type) => `${field}.`.startsWith(`${type}.`)),
    );
    if (wrong !== undefined) {
      throw usageError(
        `--${name} ${toPlain(wrong)}: write an event type and a field of its payload, such as redeem.failed.reason.`,
      );
    }
  }
  const [enums, maps] = [new Set(flags.enum), new Set(flags.map)];
  return { isEnum: (field) => enums.has(field), isMap: (field) => maps.has(field) };
}

/** The content of the file; `undefined` if it does not exist. */
async function readLearned(path: string): Promise<LearnedPayloads | undefined> {
  try {
    return readSource(await readFile(path, 'utf8'));
  } catch (error) {
    if (error instanceof SourceError)
      throw usageError(
        `--out ${path}: ${error.message} Put schemas of your own into another file, or delete this one.`,
        { cause: error },
      );
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

async function findEvents({ flags, settings, signal }: CommandContext<TypesFlags>): Promise<FoundEvents> {
  const { from, limit } = flags;
  if (from !== undefined) return parseEvents(await readInput(from, '--from'), `--from ${from}`);
  if (hasInbox(flags)) return withInbox(flags, (opened) => inboxEvents(opened, signal));
  return listEvents(await settings.client(), { limit, signal });
}

type KnownEvent = UnknownEvent & { readonly type: EventType };

function learn(
  events: readonly KnownEvent[],
  before: LearnedPayloads,
  rules: LearningRules,
): LearnedPayloads {
  const learned = new Map(before);
  for (const { type, payload } of events) {
    learned.set(type, widen(learned.get(type), payload, { field: type, rules }));
  }
  return learned;
}

/** @throws {CommandError} exit 2 when a rule has no effect: the field is misspelt, or the file has it unchanged. */
function checkRulesApplied(learned: LearnedPayloads, flags: TypesFlags): void {
  const inside = [...learned].flatMap(([type, shape]) => [...shapesInside(shape, type)]);
  const applied = {
    enum: inside.filter(({ shape }) => typeof shape.string === 'object').map(({ field }) => field),
    map: inside.filter(({ shape }) => shape.map !== undefined).map(({ field }) => field),
  };
  for (const name of ['enum', 'map'] as const) {
    const wrong = flags[name]?.find((field) => !applied[name].includes(field));
    if (wrong === undefined) continue;
    const kind = name === 'enum' ? 'a string' : 'an object';
    throw usageError(
      `--${name} ${toPlain(wrong)} has no effect: no event has ${kind} there, or ${flags.out} has the field without --${name}. Check the name, or delete the file to learn it again.`,
    );
  }
}

interface Summary {
  readonly counts: ReadonlyMap<string, number>;
  readonly before: LearnedPayloads;
  readonly out: string;
}

interface Written extends Summary {
  readonly learned: LearnedPayloads;
  readonly isNew: boolean;
}

async function writeLearned({ printer }: CommandContext<TypesFlags>, summary: Written): Promise<void> {
  const { counts, before, learned, out, isNew } = summary;
  const changed = isNew || EVENT_TYPES.some((type) => before.get(type) !== learned.get(type));
  if (changed) await replaceFile(out, toSource(learned));
  const differences = EVENT_TYPES.flatMap((type) =>
    before.has(type) ? compareShapes(before.get(type), learned.get(type), type) : [],
  );
  const types = EVENT_TYPES.map((type) => ({
    type,
    events: counts.get(type) ?? 0,
    result: describeLearning(before.get(type), learned.get(type)),
  }));
  const lines = [
    toTypeTable(types, printer.paint),
    ...differences.map(({ field, what }) => toPlain(`${field} ${what}`)),
    changed ? `${out} is written.` : `${out} already contains all of this, and is unchanged.`,
  ];
  printer.print({ text: lines.join('\n'), data: { out, changed, types, differences } });
}

/**
 * Refuses new keys that look like data: keys are written into the file, and data must not be.
 *
 * @throws {CommandError} exit 2, before anything is written; the message names the object and not its keys.
 */
function refuseIds(learned: LearnedPayloads, { before, out }: Summary): void {
  const known = new Map(objectsInside(before));
  const found = objectsInside(learned).flatMap(([field, object]) => {
    const keys = [...object.keys()].filter((key) => LIKE_DATA.test(key) && !known.get(field)?.has(key));
    return keys.length === 0 ? [] : [{ field, count: keys.length }];
  });
  // The name of a field inside such an object contains one of its keys.
  const outer = found.filter(({ field }) => !found.some((other) => field.startsWith(`${other.field}.`)));
  if (outer.length === 0) return;
  const places = outer.map(({ field, count }) => `${count} in ${toPlain(field)}`).join(', ');
  const maps = outer.map(({ field }) => `--map '${toPlain(field)}'`).join(' ');
  // A rule does not change an object that is already in the file.
  const pass = outer.some(({ field }) => known.has(field)) ? `delete ${out} and pass` : 'pass';
  throw usageError(
    `Nothing was written, because keys look like data: ${places}. If keys are data, ${pass} ${maps}; if they are names of fields, pass --keep-keys.`,
  );
}

function objectsInside(learned: LearnedPayloads): readonly (readonly [string, ReadonlyMap<string, Field>])[] {
  return [...learned]
    .flatMap(([type, shape]) => [...shapesInside(shape, type)])
    .flatMap(({ field, shape }) => (shape.object === undefined ? [] : [[field, shape.object] as const]));
}

/**
 * Names of fields are short, have few digits, and consist of letters, digits, `_` and `-`, perhaps after `_`, `$` or `@`.
 * Other keys are data: ids, addresses, names of people.
 */
const LIKE_DATA = /\d{4}|(?:\d+\D+){2}\d|^0x|^.{32}|^(?![_$@]?[\p{L}_][\p{L}\p{M}\p{N}_-]*$)/u;

function describeLearning(before: Shape | undefined, after: Shape | undefined): string {
  if (after === undefined) return 'not learned: no events';
  if (before === undefined) return 'learned';
  return before === after ? 'unchanged' : 'extended';
}

/** A difference, the number of events that have it, and one of them. */
interface Mismatch extends Difference {
  readonly type: EventType;
  readonly events: number;
  readonly firstId: string;
}

/** Compares each event with the file. An event matches if learning it would not change the file. */
function findMismatches(events: readonly KnownEvent[], before: LearnedPayloads): readonly Mismatch[] {
  const found = new Map<string, Mismatch>();
  for (const { type, id, payload } of events) {
    const known = before.get(type);
    const widened = widen(known, payload, { field: type, rules: NO_RULES });
    for (const { field, what } of compareShapes(known, widened, type)) {
      const key = `${field} ${what}`;
      const mismatch = found.get(key) ?? { type, field, what, events: 0, firstId: id };
      found.set(key, { ...mismatch, events: mismatch.events + 1 });
    }
  }
  return [...found.values()];
}

const NO_RULES: LearningRules = { isEnum: () => false, isMap: () => false };

interface Comparison extends Summary {
  readonly mismatches: readonly Mismatch[];
}

/** Returns whether there are differences. */
function printComparison(
  { printer }: CommandContext<TypesFlags>,
  { counts, mismatches, out }: Comparison,
): boolean {
  const differs = mismatches.length > 0;
  const types = EVENT_TYPES.map((type) => {
    const events = counts.get(type) ?? 0;
    const mismatched = mismatches.some((one) => one.type === type);
    const result = mismatched ? 'differs' : 'matches';
    return { type, events, result: events > 0 ? result : 'not shown: no events' };
  });
  const lines = [
    toTypeTable(types, printer.paint),
    ...mismatches.flatMap(({ type, field, what, events, firstId }) => [
      toPlain(`${field} ${what}`),
      toPlain(`    in ${events} of ${countOf(counts.get(type) ?? 0, 'event')}, such as ${firstId}`),
    ]),
    differs
      ? `The events do not match ${out}. To accept them, run the same command without --check.`
      : `The events match ${out}.`,
  ];
  printer.print({ text: lines.join('\n'), data: { out, changed: differs, types, differences: mismatches } });
  return differs;
}

interface TypeRow {
  readonly type: EventType;
  readonly events: number;
  readonly result: string;
}

function toTypeTable(types: readonly TypeRow[], { good, bad, doubtful }: Paint): string {
  const paints: Readonly<Record<string, (text: string) => string>> = { matches: good, differs: bad };
  return toTable(
    ['type', 'events', 'result'],
    types.map(({ type, events, result }) => [
      type,
      String(events),
      { text: result, paint: paints[result] ?? (events === 0 ? doubtful : (text) => text) },
    ]),
  );
}
