import { rule } from '../core/options.js';

/** The rule of a name in SQL. */
export const nameRule = (maxLength: number) =>
  rule<string>(
    `letters, digits and underscores, at most ${maxLength} characters, and must not start with a digit`,
    (value) => typeof value === 'string' && value.length <= maxLength && /^[A-Za-z_]\w*$/.test(value),
    'stablehooks',
  );

/** The rule of what begins the names of tables. */
export const PREFIX_RULE = nameRule(40);
