import { rule } from '../core/options.js';

export const nameRule = (maxLength: number) =>
  rule<string>(
    `a name with up to ${maxLength} letters, digits and underscores that does not start with a digit`,
    (value) => typeof value === 'string' && value.length <= maxLength && /^[A-Za-z_]\w*$/.test(value),
    'stablehooks',
  );

export const PREFIX_RULE = nameRule(40);
