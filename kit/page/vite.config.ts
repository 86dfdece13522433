import { defineConfig } from 'vite';

/** Nothing is inlined, because the page's content security policy allows only files. */
export default defineConfig({
  // The base is relative, because the page can be mounted at any path.
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
