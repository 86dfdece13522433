/** What a newcomer types and saves for each framework, language and module system, as the README tells. */
import {
  CHECK,
  commandsOf,
  EXPRESS,
  EXPRESS_TYPES,
  FASTIFY,
  FIRE,
  INSTALL,
  LANGUAGES,
  type Language,
  type LanguageSteps,
  NEXT,
  type QuickStart,
  reconcileJob,
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
  /** Starts the server, which keeps running; `undefined` for a job. */
  readonly server: string | undefined;
  /** Starts the sandbox, for a job. */
  readonly sandbox: string | undefined;
  /** Fires an event; for a job, also runs it. */
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

/** What continuous integration runs: a server in TypeScript, and a job in JavaScript. */
const QUICK = ['Express, TypeScript, ES module', 'Job, JavaScript, ES module'];

export const VARIANTS: readonly Variant[] = [
  // The longest begin first.
  ...nextApps(),
  ...serversOf('Express', EXPRESS, EXPRESS_TYPES),
  ...serversOf('Fastify', FASTIFY),
  ...jobs(),
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
      sandbox: undefined,
      fire: FIRE,
    };
  });
}

/** Next compiles routes itself, whatever `type` is in package.json: only what a file writes makes a variant. */
function nextApps(): readonly Variant[] {
  const { text, program } = NEXT;
  const [timeout = ''] = commandsOf(text, '--timeout');
  const [create = ''] = commandsOf(text, 'npx -y create-next-app');
  const createJavaScript = `${create} ${commandsOf(text, '--js')[0]}`;
  const [server = ''] = commandsOf(text, 'STABLEHOOKS_SECRET');
  const [exported = ''] = commandsOf(text, 'module.exports');
  const [, file = ''] = /^\/\/ (app\/\S+)/.exec(program) ?? [];
  const javaScript = {
    file: file.replace(/ts$/, 'js'),
    check: undefined,
    install: [createJavaScript, ...INSTALL],
    server,
    sandbox: undefined,
    fire: `${FIRE} ${timeout}`,
  };
  return [
    {
      ...common('Next, TypeScript'),
      ...javaScript,
      program,
      file,
      install: [create, ...INSTALL],
      check: commandsOf(text, 'npx tsc')[0],
    },
    { ...common('Next, JavaScript, ES module'), ...javaScript, program },
    {
      ...common('Next, JavaScript, CommonJS'),
      ...javaScript,
      program: toCommonJs(program).replace(/^export .*$/m, exported),
    },
  ];
}

function jobs(): readonly Variant[] {
  const { install, program, sandbox, run } = reconcileJob();
  const asJob = (command: string) => command.replace('server.', 'job.');
  const [first] = LANGUAGES.map(stepsOf);
  return SYSTEMS.map((system) => {
    const steps = stepsOf(system.language);
    return {
      ...common(`Job, ${system.name}`),
      install: [...install, ...setUpOf(system, steps)],
      file: asJob(steps.file),
      program: system.language === 'CommonJS' ? toCommonJs(program) : program,
      check: system.language === 'TypeScript' ? asJob(CHECK) : undefined,
      server: undefined,
      sandbox,
      fire: run.replace(withoutSecret(asJob(first?.start ?? '')), withoutSecret(asJob(steps.start))),
    };
  });
}

function common(name: string): Pick<Variant, 'name' | 'quick'> {
  return { name, quick: QUICK.includes(name) };
}

function setUpOf({ modules }: System, { install }: LanguageSteps): readonly string[] {
  return [...install, ...(modules ? [TO_MODULES] : [])];
}

/** The job exports its secret. */
function withoutSecret(start: string): string {
  return start.replace(/^STABLEHOOKS_SECRET=\S+ /, '');
}
