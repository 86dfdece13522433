import { expect, test } from 'vitest';
import { toCommonJs } from './readme.js';
import { VARIANTS } from './variants.js';

test.each(VARIANTS)('the README has everything for the first run of $name', (variant) => {
  const { name, file, program, install, server, sandbox, fire, check } = variant;
  expect(install.length).toBeGreaterThan(1);
  expect(install.join('\n')).toMatch(/^npm install stablehooks\b/m);
  for (const command of install) expect(command).toMatch(/^(?:npm|npx) \S+/);
  expect(/^(?:import|export) /m.test(program)).toBe(!/CommonJS/.test(name) || file.endsWith('.ts'));
  expect(program).toMatch(/'transfer\.settled': (?:async )?\(event/);
  expect(file).toMatch(/\.(?:mjs|cjs|js|ts)$/);
  expect(sandbox).toMatch(/^npx stablehooks sandbox /);
  expect(fire).toContain('npx stablehooks trigger transfer.settled');
  if (server === undefined) expect(fire).toContain(file);
  else expect(server).toMatch(/^WEBHOOK_SECRET=\S+ (?:node|npx)/);
  expect(check !== undefined).toBe(file.endsWith('.ts'));
});

test('a program becomes CommonJS as the README tells, and keeps everything but its imports', () => {
  const program = "import a from 'a';\nimport { b, c } from 'd/e';\n\nb(a, `import x`);\n";
  const commonJs = "const a = require('a');\nconst { b, c } = require('d/e');\n\nb(a, `import x`);\n";
  expect(toCommonJs(program)).toBe(commonJs);
});
