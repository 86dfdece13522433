/**
 * Describes a JSON value: its kinds, and the contents of each kind. No value is kept, except the strings of a
 * requested enum. The empty shape is a value of which nothing is known.
 */
export interface Shape {
  readonly null?: true;
  readonly boolean?: true;
  readonly number?: 'integer' | 'any';
  /** `any`, or the values of an enum. */
  readonly string?: 'any' | ReadonlySet<string>;
  /** The shape of all elements. */
  readonly array?: Shape;
  readonly object?: ReadonlyMap<string, Field>;
  /** The shape of all values of an object whose keys are data. */
  readonly map?: Shape;
}

/** A field of an object. */
export interface Field {
  readonly shape: Shape;
  /** Whether some objects did not have it. */
  readonly optional: boolean;
}

/** Rules that cannot be inferred, because they depend on the meaning of a field. */
export interface LearningRules {
  /** Whether the strings of this field are an enum. */
  readonly isEnum: (field: string) => boolean;
  /** Whether the keys of this object are data, such as ids. */
  readonly isMap: (field: string) => boolean;
}

/** The place of a value: its field, written as `items[].amount`, and the rules for it. */
interface Place {
  readonly field: string;
  readonly depth: number;
  readonly rules: LearningRules;
}

/** Deeper values have an unknown shape, because each level is a call, here and in the schemas. */
const MAX_DEPTH = 64;

/**
 * The shape extended by this value.
 *
 * A value that fits adds nothing, and the same shape is returned. The order in which values are learned makes no difference.
 * Enums and maps of the shape stay so, whatever the rules are.
 *
 * @param shape - `undefined` before the first value.
 * @param field - the name of the value, which precedes the names of its fields.
 */
export function widen(
  shape: Shape | undefined,
  value: unknown,
  { field, rules }: Pick<Place, 'field' | 'rules'>,
): Shape {
  return learn(shape, value, { field, rules, depth: 0 });
}

function learn(shape: Shape | undefined = NOTHING, value: unknown, place: Place): Shape {
  if (place.depth > MAX_DEPTH) return shape;
  if (value === null) return shape.null ? shape : { ...shape, null: true };
  if (typeof value === 'boolean') return shape.boolean ? shape : { ...shape, boolean: true };
  if (typeof value === 'number') return learnNumber(shape, value);
  if (typeof value === 'string') return learnString(shape, value, place);
  if (Array.isArray(value)) return learnArray(shape, value, place);
  if (typeof value === 'object') return learnObject(shape, value, place);
  return shape;
}

const NOTHING: Shape = {};

function learnNumber(shape: Shape, value: number): Shape {
  // `z.int()` refuses integers beyond the safe range, which JSON can contain.
  const number = Number.isSafeInteger(value) ? (shape.number ?? 'integer') : 'any';
  return shape.number === number ? shape : { ...shape, number };
}

function learnString(shape: Shape, value: string, { field, rules }: Place): Shape {
  const { string } = shape;
  const values = string ?? (rules.isEnum(field) ? new Set<string>() : 'any');
  if (values === 'any') return string === 'any' ? shape : { ...shape, string: 'any' };
  return values.has(value) ? shape : { ...shape, string: new Set([...values, value]) };
}

function learnArray(shape: Shape, values: readonly unknown[], place: Place): Shape {
  const inside = { ...place, field: `${place.field}[]`, depth: place.depth + 1 };
  let array = shape.array ?? NOTHING;
  for (const value of values) array = learn(array, value, inside);
  return shape.array === array ? shape : { ...shape, array };
}

function learnObject(shape: Shape, value: object, place: Place): Shape {
  const depth = place.depth + 1;
  const toField = (key: string) => `${place.field}.${key}`;
  const entries = Object.entries(value);
  if (shape.map !== undefined || (shape.object === undefined && place.rules.isMap(place.field))) {
    const inside = { ...place, field: `${place.field}.*`, depth };
    let map = shape.map ?? NOTHING;
    for (const [, item] of entries) map = learn(map, item, inside);
    return shape.map === map ? shape : { ...shape, map };
  }
  const before = shape.object;
  const object = new Map(before);
  for (const [key, item] of entries) {
    const known = object.get(key);
    const learned = learn(known?.shape, item, { ...place, field: toField(key), depth });
    if (known !== undefined && known.shape === learned) continue;
    // Not the first object, because an earlier object did not have the key.
    const optional = known?.optional ?? before !== undefined;
    object.set(key, { shape: learned, optional });
  }
  for (const [key, { shape: known, optional }] of object) {
    if (optional || Object.hasOwn(value, key)) continue;
    object.set(key, { shape: known, optional: true });
  }
  const isSame =
    before?.size === object.size && [...object].every(([key, known]) => before.get(key) === known);
  return isSame ? shape : { ...shape, object };
}

/** A difference of a value from a shape, without the value. */
export interface Difference {
  /** Such as `items[].amount`. */
  readonly field: string;
  readonly what: string;
}

/** The parts of a shape that an earlier shape lacks: the differences of the values that extended it. */
export function compareShapes(
  before: Shape | undefined,
  after: Shape | undefined,
  field: string,
): readonly Difference[] {
  if (before === after || after === undefined) return [];
  const at = (what: string) => [{ field, what }];
  if (before === undefined) return at('is not learned');
  const kinds = KINDS.filter((kind) => after[kind] !== undefined && before[kind] === undefined);
  const known = KINDS.some((kind) => before[kind] !== undefined);
  const verb = known ? 'is also' : 'is';
  const { string } = after;
  return [
    ...kinds.flatMap((kind) => at(`${verb} ${NAMES[kind]}`)),
    ...(before.number === 'integer' && after.number === 'any' ? at('is not always an integer') : []),
    ...(before.string !== undefined && before.string !== string ? at(ENUM) : []),
    ...(before.array === undefined ? [] : compareShapes(before.array, after.array, `${field}[]`)),
    ...(before.map === undefined ? [] : compareShapes(before.map, after.map, `${field}.*`)),
    ...(before.object === undefined ? [] : compareFields(before.object, after.object ?? new Map(), field)),
  ];
}

const ENUM = 'has a value that the enum does not list';

const NAMES = {
  null: 'null',
  boolean: 'a boolean',
  number: 'a number',
  string: 'a string',
  array: 'an array',
  object: 'an object',
  map: 'an object',
} as const satisfies Readonly<Record<keyof Shape, string>>;

const KINDS = Object.keys(NAMES) as readonly (keyof Shape)[];

function compareFields(
  before: ReadonlyMap<string, Field>,
  after: ReadonlyMap<string, Field>,
  parent: string,
): readonly Difference[] {
  return [...after].flatMap(([key, { shape, optional }]) => {
    const field = `${parent}.${key}`;
    const known = before.get(key);
    if (known === undefined) return [{ field, what: 'is new' }];
    const missing = optional && !known.optional ? [{ field, what: 'is missing' }] : [];
    return [...missing, ...compareShapes(known.shape, shape, field)];
  });
}

/** The shape and, named as in {@link widen}, each shape inside it. */
export function* shapesInside(
  shape: Shape,
  field: string,
): Generator<{ readonly field: string; readonly shape: Shape }> {
  yield { field, shape };
  if (shape.array !== undefined) yield* shapesInside(shape.array, `${field}[]`);
  if (shape.map !== undefined) yield* shapesInside(shape.map, `${field}.*`);
  for (const [key, inner] of shape.object ?? []) yield* shapesInside(inner.shape, `${field}.${key}`);
}
