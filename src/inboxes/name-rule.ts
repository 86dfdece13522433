import { rule } from '../core/options.js';

export const nameRule = (maxLength: number) =>
  rule<string>(
    `letters, digits and underscores, at most ${maxLength} characters, and must not start with a digit`,
    (value) => typeof value === 'string' && value.length <= maxLength && /^[A-Za-z_]\w*$/.test(value),
    'stablehooks',
  );

export const PREFIX_RULE = nameRule(40);
