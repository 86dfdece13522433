/**
 * A schema whose functions, operators, types and collation have the names and arguments of those in pg_catalog and do
 * something else; for a search_path in which it comes first.
 */

/** Functions as [name and arguments, type, body]. */
const FUNCTIONS = [
  // A year in the future: every lease has lapsed.
  ['clock_timestamp()', 'timestamptz', "SELECT pg_catalog.clock_timestamp() + interval '1 year'"],
  ['now()', 'timestamptz', "SELECT pg_catalog.now() + interval '1 year'"],
  ['set_config(text, text, boolean)', 'text', "SELECT 'ignored'"],
  ['current_setting(text)', 'text', "SELECT '1ms'"],
  ['floor(numeric)', 'numeric', 'SELECT 0.0'],
  ['ceil(numeric)', 'numeric', 'SELECT 0.0'],
  ['greatest(numeric, numeric)', 'numeric', 'SELECT 0.0'],
  ['unnest(text[])', 'SETOF text', "SELECT 'evt_other'"],
  ['hashtextextended(text, bigint)', 'bigint', 'SELECT 0::bigint'],
  ['to_timestamp(double precision)', 'timestamptz', "SELECT 'infinity'::pg_catalog.timestamptz"],
  ['pg_advisory_xact_lock(bigint)', 'void', 'SELECT'],
  ['to_regclass(text)', 'regclass', 'SELECT NULL::regclass'],
] as const;

/** Operators as [symbol, left, right, type, value]. */
const OPERATORS = [
  ...['text', 'uuid', 'boolean', 'jsonb'].map((type) => ['=', type, type, 'boolean', 'false'] as const),
  ['<>', 'text', 'text', 'boolean', 'false'],
  ['=', 'timestamptz', 'timestamptz', 'boolean', 'false'],
  ['<=', 'timestamptz', 'timestamptz', 'boolean', 'true'],
  ['>', 'timestamptz', 'timestamptz', 'boolean', 'false'],
  ['>', 'interval', 'interval', 'boolean', 'true'],
  ['+', 'timestamptz', 'interval', 'timestamptz', '$1'],
  ['+', 'integer', 'integer', 'integer', '100'],
  ['-', 'timestamptz', 'timestamptz', 'interval', "interval '0'"],
  ['-', 'timestamptz', 'interval', 'timestamptz', '$1'],
  ['-', 'integer', 'bigint', 'bigint', '0::bigint'],
  ['-', 'jsonb', 'integer', 'jsonb', "'[]'::jsonb"],
  ['*', 'double precision', 'interval', 'interval', "interval '0'"],
  ['*', 'numeric', 'integer', 'numeric', '0.0'],
  ['||', 'jsonb', 'jsonb', 'jsonb', "'[]'::jsonb"],
] as const;

/** The SQL that creates the schema, for one query of several statements. */
export function writeHostileSchema(schema: string): string {
  const functions = FUNCTIONS.map(
    ([name, type, body]) => `CREATE FUNCTION ${schema}.${name} RETURNS ${type} LANGUAGE sql AS $$ ${body} $$`,
  );
  const operators = OPERATORS.flatMap(([symbol, left, right, type, value], index) => [
    `CREATE FUNCTION ${schema}.operator_${index}(${left}, ${right}) RETURNS ${type} LANGUAGE sql AS $$ SELECT ${value} $$`,
    `CREATE OPERATOR ${schema}.${symbol} (LEFTARG = ${left}, RIGHTARG = ${right}, FUNCTION = ${schema}.operator_${index})`,
  ]);
  const types = ['text', 'uuid', 'jsonb', 'timestamptz', 'float8'].map(
    (type) => `CREATE DOMAIN ${schema}.${type} AS pg_catalog.${type} CHECK (false)`,
  );
  return [
    `CREATE SCHEMA ${schema}`,
    ...functions,
    ...operators,
    `CREATE COLLATION ${schema}."C" (provider = libc, locale = 'POSIX')`,
    ...types,
  ].join(';\n');
}
