import { ConfigError } from 'stablehooks';
import * as z from 'zod/mini';
import { suggestName, toFieldErrors, toSentence } from './sandbox/validation.js';

/**
 * Checks the options of a factory and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option and never its value.
 */
export function checkOptions<Shape extends z.core.$ZodShape>(
  factory: string,
  shape: Shape,
  options: unknown,
): z.output<z.ZodMiniObject<Shape, z.core.$strip>> {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new ConfigError(`${factory}: the options must be an object.`);
  }
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(shape, name));
  if (unknown !== undefined) {
    throw new ConfigError(
      `${factory}: unknown option \`${unknown}\`. ${suggestName(unknown, Object.keys(shape))}`,
    );
  }
  const result = z.safeParse(z.object(shape), options);
  if (result.success) return result.data;
  const text = toFieldErrors(result.error).map(({ field, detail }) => `\`${field}\` ${detail}`);
  throw new ConfigError(toSentence(`${factory}: ${text.join('; ')}`));
}
