/** What a newcomer types and saves for each framework, language and module system, as the README tells. */
import {
  CHECK,
  EXPRESS,
  EXPRESS_TYPES,
  FASTIFY,
  FIRE,
  INSTALL,
  type Language,
  type LanguageSteps,
  type QuickStart,
  stepsOf,
  TO_MODULES,
  toCommonJs,
} from './readme.js';

/** One first run. Commands are as they are printed in the README. */
export interface Variant {
  readonly name: string;
  /** Whether continuous integration runs it. */
  readonly quick: boolean;
  /** Run in this order in an empty folder. */
  readonly install: readonly string[];
  readonly file: string;
  readonly program: string;
  readonly check: string | undefined;
  /** Starts the server, which keeps running. */
  readonly server: string;
  /** Fires an event. */
  readonly fire: string;
}

interface System {
  readonly language: Language;
  readonly name: string;
  /** Whether `package.json` says `"type": "module"`. */
  readonly modules?: boolean;
}

const SYSTEMS: readonly System[] = [
  { language: 'JavaScript', name: 'JavaScript, ES module' },
  { language: 'CommonJS', name: 'JavaScript, CommonJS' },
  { language: 'TypeScript', name: 'TypeScript, ES module', modules: true },
  { language: 'TypeScript', name: 'TypeScript, CommonJS' },
];

/** What continuous integration runs, beside the program of `init`. */
const QUICK = ['Express, TypeScript, ES module'];

export const VARIANTS: readonly Variant[] = [
  ...serversOf('Express', EXPRESS, EXPRESS_TYPES),
  ...serversOf('Fastify', FASTIFY),
];

const misspelt = QUICK.filter((quick) => VARIANTS.every(({ name }) => name !== quick));
if (misspelt.length > 0) throw new Error(`No variant has the name ${misspelt.join('; ')}.`);

function serversOf(framework: string, { install, program }: QuickStart, types?: string): readonly Variant[] {
  return SYSTEMS.map((system) => {
    const steps = stepsOf(system.language);
    const withTypes = system.language === 'TypeScript' && types !== undefined ? [types] : [];
    return {
      ...common(`${framework}, ${system.name}`),
      install: [...INSTALL, ...install, ...withTypes, ...setUpOf(system, steps)],
      file: steps.file,
      program: system.language === 'CommonJS' ? toCommonJs(program) : program,
      check: system.language === 'TypeScript' ? CHECK : undefined,
      server: steps.start,
      fire: FIRE,
    };
  });
}

function common(name: string): Pick<Variant, 'name' | 'quick'> {
  return { name, quick: QUICK.includes(name) };
}

function setUpOf({ modules }: System, { install }: LanguageSteps): readonly string[] {
  return [...install, ...(modules ? [TO_MODULES] : [])];
}
