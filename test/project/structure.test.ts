/** The rules of the source that a reader relies on. */
import { describe, expect, test } from 'vitest';
import { exportsOf, filesBelow, importsOf, kitManifest, type Manifest, manifest, textOf } from './source.js';

/** The rooms, and what each may import beside itself. The receiver's default inbox is the memory inbox. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  inboxes: ['core'],
  // One layer: `receiver/receiver.ts` puts the parts of both together.
  receiver: ['core', 'flow', 'inboxes/memory-ops.ts'],
  flow: ['core', 'receiver'],
  queues: ['core', 'receiver'],
  adapters: ['core', 'receiver'],
  client: ['core'],
  'catch-up': ['core', 'client', 'receiver'],
  reconcile: ['core', 'catch-up'],
  health: ['core', 'catch-up', 'receiver/tally.ts', 'reconcile/owed-note.ts'],
  telemetry: ['core', 'receiver', 'health', 'catch-up/state.ts'],
  testing: ['core', 'receiver'],
  'index.ts': ['core', 'inboxes/memory.ts', 'receiver'],
};

/** The optional peers that a file imports at run time: whoever imports it has them. */
const PEERS: Readonly<Record<string, readonly string[]>> = {
  'src/adapters/nest.ts': ['@nestjs/common', '@nestjs/core'],
  'src/telemetry/metrics.ts': ['@opentelemetry/api'],
  'src/telemetry/opentelemetry.ts': ['@opentelemetry/api'],
  'src/telemetry/spans.ts': ['@opentelemetry/api'],
  'src/telemetry/trace-context.ts': ['@opentelemetry/api'],
};

test('the peers of stablehooks are the packages that its files import at run time', () => {
  const imported = new Set(Object.values(PEERS).flat());
  expect(Object.keys(manifest.peerDependencies).toSorted()).toEqual([...imported].toSorted());
});

const sources = filesBelow('src');
const kitSources = filesBelow('kit/src');
const roomOf = (path: string) => path.split('/')[1] ?? '';

const targetsOf = ({ exports }: Manifest) =>
  Object.values(exports).flatMap((target) =>
    typeof target === 'string' ? [] : [{ modules: 'import' in target ? target.import : target, target }],
  );

const entriesOf = (manifest: Manifest, folder: string) =>
  targetsOf(manifest).map(({ modules }) =>
    modules.default.replace('./dist/', `${folder}src/`).replace(/\.js$/, '.ts'),
  );

const PACKAGES = [
  { name: 'stablehooks', sources, manifest, entries: entriesOf(manifest, '') },
  {
    name: 'stablehooks-kit',
    sources: kitSources,
    manifest: kitManifest,
    entries: entriesOf(kitManifest, 'kit/'),
  },
] as const;

test('every source file of stablehooks is in a room of the map', () => {
  expect(sources.length).toBeGreaterThan(20);
  expect(sources.filter((path) => !(roomOf(path) in ROOMS))).toEqual([]);
});

test.each(['src/README.md', 'docs/internals/design.md'])(
  'the files and names in %s are in the source',
  (map) => {
    const marked = [...textOf(map).matchAll(/`([^`\n]+)`/g)].map(([, text = '']) => text);
    const files = marked.filter((text) => /^(?:[\w-]+\/)+[\w-]+\.tsx?$/.test(text));
    const names = marked.filter(
      (text) => /^[A-Za-z]\w*(?:\.\w+)*(?:\(\))?$/.test(text) && !files.includes(text),
    );
    expect(names.length).toBeGreaterThan(10);
    expect(files.filter((file) => !sources.includes(`src/${file}`))).toEqual([]);
    const words = new Set(
      [...sources, ...filesBelow('test/contracts'), 'package.json'].flatMap(
        (path) => textOf(path).match(/\w+/g) ?? [],
      ),
    );
    expect(names.filter((name) => !name.match(/\w+/g)?.every((word) => words.has(word)))).toEqual([]);
  },
);

test('a room of stablehooks imports only itself and the rooms below it', () => {
  const upward = sources.flatMap((path) =>
    importsOf(path)
      .filter(({ file }) => file !== undefined && roomOf(file) !== roomOf(path))
      .filter(({ file }) => !ROOMS[roomOf(path)]?.some((room) => `${file}/`.startsWith(`src/${room}/`)))
      .map(({ file }) => `${path} -> ${file}`),
  );
  expect(upward).toEqual([]);
});

/** Where something outside decides about the time: real sockets, locks of other processes, turns of the event loop. */
const REAL_TIME = [
  'src/adapters/fetch.ts',
  'src/adapters/node-body.ts',
  'src/client/elements.ts',
  'src/inboxes/sqlite-connection.ts',
  'src/testing/example-event.ts',
];

test('stablehooks takes time, timers and randomness from a runtime that can be replaced', () => {
  const fixed =
    /Date\.now|new Date\(\)|performance\.now|(?<![.\w])set(?:Timeout|Interval|Immediate)\(|Math\.random|randomUUID|AbortSignal\.timeout|timers\/promises/;
  const code = (path: string) => textOf(path).replaceAll(/^\s*(?:\/?\*|\/\/).*$/gm, '');
  const found = sources.filter((path) => fixed.test(code(path)));
  expect(found.toSorted()).toEqual(
    ['src/core/runtime.ts', ...REAL_TIME.filter((path) => found.includes(path))].toSorted(),
  );
});

test('the core of stablehooks uses no I/O, clock, environment or logger', () => {
  const core = sources.filter((path) => roomOf(path) === 'core');
  const packages = core.flatMap((path) => importsOf(path).filter(({ file }) => file === undefined));
  const allowed = ['stablehooks/internal/hmac', 'node:crypto', 'node:buffer'];
  expect(packages.map(({ specifier }) => specifier).filter((name) => !allowed.includes(name))).toEqual([]);
  const impure =
    /Date\.now|new Date\(\)|\bprocess\.[a-z]|console\.|(?<![.\w])setTimeout|Math\.random|globalThis/;
  // The runtime of the platform is the default of an option.
  expect(core.filter((path) => impure.test(textOf(path)))).toEqual(['src/core/runtime.ts']);
});

test('no name is exported by two rooms of stablehooks for different things', () => {
  const rooms = new Map<string, Set<string>>();
  for (const path of sources) {
    for (const name of exportsOf(path)) rooms.set(name, (rooms.get(name) ?? new Set()).add(roomOf(path)));
  }
  const twice = [...rooms].filter(([, { size }]) => size > 1);
  expect(twice.map(([name, where]) => `${name}: ${[...where].join(', ')}`)).toEqual([]);
});

test('the kit imports stablehooks by its public subpaths only', () => {
  expect(kitSources.length).toBeGreaterThan(10);
  const subpaths = Object.keys(manifest.exports).map((subpath) => `stablehooks${subpath.slice(1)}`);
  const wrong = kitSources.flatMap((path) =>
    importsOf(path)
      .filter(({ specifier, file }) =>
        file === undefined
          ? /^stablehooks/.test(specifier) && !subpaths.includes(specifier)
          : !file.startsWith('kit/src/'),
      )
      .map(({ specifier }) => `${path} -> ${specifier}`),
  );
  expect(wrong).toEqual([]);
});

describe.each(PACKAGES)('$name', ({ sources, manifest, entries }) => {
  test('has no cycle of imports', () => {
    const state = new Map<string, 'open' | 'done'>();
    const cycles: string[] = [];
    const visit = (path: string, from: readonly string[]) => {
      if (state.get(path) === 'open') cycles.push([...from.slice(from.indexOf(path)), path].join(' -> '));
      if (state.has(path)) return;
      state.set(path, 'open');
      for (const { file } of importsOf(path)) if (file !== undefined) visit(file, [...from, path]);
      state.set(path, 'done');
    };
    for (const path of sources) visit(path, []);
    expect(cycles).toEqual([]);
  });

  test('declares every package that it imports at run time, and no other', () => {
    const runtime = sources.flatMap((path) =>
      importsOf(path)
        .filter(({ file, typeOnly }) => file === undefined && !typeOnly)
        .map(({ specifier }) => specifier)
        .filter((specifier) => !/^(node:|stablehooks\/internal\/)/.test(specifier))
        .map((specifier) => specifier.replace(/^((?:@[^/]+\/)?[^/]+).*$/, '$1'))
        .filter((name) => !PEERS[path]?.includes(name)),
    );
    expect(new Set(runtime)).toEqual(new Set(Object.keys(manifest.dependencies)));
  });

  test('names its files by what they hold', () => {
    const bad = /(^|\/)(utils?|helpers?|common|types?)\.ts$|[A-Z_]/;
    expect(sources.filter((path) => bad.test(path))).toEqual([]);
  });

  test('has no any, no ignored error and no unfinished mark', () => {
    const marks = /\bas any\b|: any\b|<any>|@ts-(ignore|nocheck)|biome-ignore|eslint-disable|TODO|FIXME|XXX/;
    expect(sources.filter((path) => marks.test(textOf(path)))).toEqual([]);
  });

  test('re-exports names only where a subpath of the package begins', () => {
    const barrels = sources.filter((path) => /^export .* from '/m.test(textOf(path)));
    expect(barrels.filter((path) => !entries.includes(path))).toEqual([]);
  });

  test('has types and code behind each subpath', () => {
    for (const { modules } of targetsOf(manifest)) {
      expect(Object.keys(modules)).toEqual(['types', 'default']);
      expect(modules.types).toBe(modules.default.replace(/\.js$/, '.d.ts'));
    }
    expect(entries.filter((path) => !sources.includes(path))).toEqual([]);
  });
});

test('every subpath of stablehooks is the same file as an ES module and as CommonJS', () => {
  for (const { modules, target } of targetsOf(manifest)) {
    const path = modules.default.replace('./dist/', './dist/cjs/').replace(/\.js$/, '');
    const required = { types: `${path}.d.cts`, default: `${path}.cjs` };
    expect(target).toEqual({ import: modules, require: required });
    expect(Object.keys(target)).toEqual(['import', 'require']);
  }
});

test('no test is skipped or runs alone', () => {
  const tests = [...filesBelow('test'), ...filesBelow('kit/test')];
  expect(tests.length).toBeGreaterThan(50);
  expect(tests.filter((path) => /\.(skip|only|todo)\(/.test(textOf(path)))).toEqual([]);
});

test('a test waits for a condition for a minute or longer, because a busy machine is slow', () => {
  const countOf = (path: string, pattern: RegExp) => textOf(path).match(pattern)?.length ?? 0;
  const impatient = [...filesBelow('test'), ...filesBelow('kit/test')].filter(
    (path) => countOf(path, /vi\.wait(?:For|Until)\(/g) > countOf(path, /timeout: (?:[6-9]\d|\d{3,})_000\b/g),
  );
  expect(impatient).toEqual([]);
});
