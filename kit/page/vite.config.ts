import { defineConfig } from 'vite';

/** Builds the page of the inspector. Nothing is inlined, because the policy of the page allows files only. */
export default defineConfig({
  // Relative, because the page can be mounted at any path.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../dist/inspector/page',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    license: { fileName: 'LICENSES.md' },
  },
});
