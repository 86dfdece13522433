/**
 * Collects the Markdown pages of the site in `pages`: those of the repository, and a reference with one page for each
 * public subpath of both packages, generated from the declarations that they ship.
 */
import { cp, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { Application, type TypeDocOptions } from 'typedoc';
import type { PluginOptions } from 'typedoc-plugin-markdown';
import { entries, root } from './entries.js';

const out = join(root, 'site/pages');

await rm(out, { recursive: true, force: true });
for (const path of [
  ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE'],
  ...['docs', 'AGENTS.md', 'llms.txt', 'openapi.json', 'src/README.md'],
]) {
  await cp(join(root, path), join(out, path), { recursive: true });
}
await cp(join(root, 'site/index.md'), join(out, 'index.md'));
// The folder itself, which readers type.
await cp(join(root, 'site/docs.md'), join(out, 'docs/index.md'));

const options: Partial<TypeDocOptions & PluginOptions> & { readonly placeInternalsInOwningModule: boolean } =
  {
    // Types that signatures name and no subpath exports, such as options, have their entries as well.
    placeInternalsInOwningModule: true,
    plugin: ['typedoc-plugin-markdown', 'typedoc-plugin-missing-exports'],
    entryPoints: entries.map(({ declarations }) => declarations),
    tsconfig: join(root, 'site/declarations.json'),
    outputs: [{ name: 'markdown', path: join(out, 'api') }],
    name: 'Reference',
    readme: 'none',
    disableSources: true,
    excludeExternals: true,
    excludeInternal: true,
    excludePrivate: true,
    validation: { notExported: true },
    groupOrder: ['Functions', 'Classes', 'Interfaces', 'Type Aliases', '*'],
    treatWarningsAsErrors: true,
    router: 'module',
    entryFileName: 'index',
    hideBreadcrumbs: true,
    hidePageHeader: true,
    useCodeBlocks: true,
    // The anchors that links use, where a heading of the same words would have another.
    useHTMLAnchors: true,
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    classPropertiesFormat: 'table',
    typeAliasPropertiesFormat: 'table',
    typeDeclarationFormat: 'table',
    tableColumnSettings: {
      hideDefaults: true,
      hideInherited: true,
      hideModifiers: true,
      hideOverrides: true,
      hideSources: true,
    },
  };
const app = await Application.bootstrapWithPlugins(options);
const project = await app.convert();
if (project === undefined) process.exit(1);
app.validate(project);

// TypeDoc names a module after its file; readers import it by its subpath.
for (const module of project.children ?? []) {
  const entry = entries.find(
    ({ declarations }) => module.name === relative(root, declarations).replace(/(\/index)?\.d\.ts$/, ''),
  );
  if (entry === undefined) throw new Error(`No subpath has the declarations of ${module.name}.`);
  module.name = entry.name;
}

await app.generateOutputs(project);
if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exit(1);
