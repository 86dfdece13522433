/** The house rules that a reader relies on: imports flow down, files are small, and nothing is let pass. */
import { describe, expect, test } from 'vitest';
import { filesBelow, importsOf, manifest, textOf } from './source.js';

/** Which rooms a room may import (the design's table); the receiver's default inbox is the memory one. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  inboxes: ['core'],
  receiver: ['core', 'inboxes/memory.ts'],
  queues: ['core', 'receiver'],
  // Next's cron route is one of its routes; what it runs is the poller's.
  adapters: ['core', 'receiver', 'catch-up/cron-route.ts'],
  client: ['core'],
  'catch-up': ['core', 'client', 'receiver'],
  testing: ['core', 'receiver'],
  conformance: ['core', 'inboxes/memory.ts', 'receiver', 'testing'],
  'index.ts': ['core', 'inboxes/memory.ts', 'receiver'],
};

const sources = filesBelow('src');
/** The sources of the package's subpaths. */
const published = Object.values(manifest.exports).map((target) =>
  typeof target === 'string' ? '' : target.default.replace('./dist/', 'src/').replace(/\.js$/, '.ts'),
);
const roomOf = (path: string) => path.split('/')[1] ?? '';

describe('imports', () => {
  test('the kit imports stablehooks by its public subpaths only', () => {
    const kit = filesBelow('kit/src');
    expect(kit.length).toBeGreaterThan(10);
    const subpaths = Object.keys(manifest.exports).map((subpath) => `stablehooks${subpath.slice(1)}`);
    const wrong = kit.flatMap((path) =>
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

  test('there are source files to look at, each in a room of the map', () => {
    expect(sources.length).toBeGreaterThan(20);
    expect(sources.filter((path) => !(roomOf(path) in ROOMS))).toEqual([]);
  });

  test('flow down: a room imports itself and the rooms below it', () => {
    const upward = sources.flatMap((path) =>
      importsOf(path)
        .filter(({ file }) => file !== undefined && roomOf(file) !== roomOf(path))
        .filter(({ file }) => !ROOMS[roomOf(path)]?.some((room) => `${file}/`.startsWith(`src/${room}/`)))
        .map(({ file }) => `${path} -> ${file}`),
    );
    expect(upward).toEqual([]);
  });

  test('go round in no circle', () => {
    const state = new Map<string, 'open' | 'done'>();
    const circles: string[] = [];
    const visit = (path: string) => {
      if (state.get(path) === 'open') circles.push(path);
      if (state.has(path)) return;
      state.set(path, 'open');
      for (const { file } of importsOf(path)) if (file !== undefined) visit(file);
      state.set(path, 'done');
    };
    for (const path of sources) visit(path);
    expect(circles).toEqual([]);
  });

  test('the core is pure: zod/mini, HMAC and text of the platform, no clock, environment or logger', () => {
    const core = sources.filter((path) => roomOf(path) === 'core');
    const packages = core.flatMap((path) => importsOf(path).filter(({ file }) => file === undefined));
    const allowed = ['zod/mini', '#hmac', '#text', 'node:crypto', 'node:buffer'];
    expect(packages.map(({ specifier }) => specifier).filter((name) => !allowed.includes(name))).toEqual([]);
    const impure = /Date\.now|new Date\(\)|\bprocess\.[a-z]|console\.|setTimeout|Math\.random|globalThis/;
    expect(core.filter((path) => impure.test(textOf(path)))).toEqual([]);
  });

  test('every package that the source imports at run time is a dependency', () => {
    const runtime = sources.flatMap((path) =>
      importsOf(path)
        .filter(
          ({ file, typeOnly, specifier }) => file === undefined && !typeOnly && !/^(node:|#)/.test(specifier),
        )
        .map(({ specifier }) => specifier.replace(/^((?:@[^/]+\/)?[^/]+).*$/, '$1')),
    );
    expect(new Set(runtime)).toEqual(new Set(Object.keys(manifest.dependencies)));
  });
});

describe('files', () => {
  test('are named by what they are', () => {
    const bad = /(^|\/)(utils?|helpers?|common|types?)\.ts$|[A-Z_]/;
    expect(sources.filter((path) => bad.test(path))).toEqual([]);
  });

  test('let nothing pass: no any, no casts to it, no ignored errors, no unfinished thoughts', () => {
    const marks = /\bas any\b|: any\b|<any>|@ts-(ignore|nocheck)|biome-ignore|eslint-disable|TODO|FIXME|XXX/;
    expect(sources.filter((path) => marks.test(textOf(path)))).toEqual([]);
    expect(filesBelow('test').filter((path) => /\.(skip|only|todo)\(/.test(textOf(path)))).toEqual([]);
  });

  test('re-export nothing, but where a subpath of the package begins', () => {
    const barrels = sources.filter((path) => /^export .* from '/m.test(textOf(path)));
    expect(barrels.filter((path) => !published.includes(path))).toEqual([]);
  });
});

describe('the package', () => {
  test('each subpath has types and code behind it', () => {
    for (const target of Object.values(manifest.exports)) {
      if (typeof target === 'string') continue;
      expect(Object.keys(target)).toEqual(['types', 'default']);
      expect(sources).toContain(target.default.replace('./dist/', 'src/').replace(/\.js$/, '.ts'));
      expect(target.types).toBe(target.default.replace(/\.js$/, '.d.ts'));
    }
  });
});
