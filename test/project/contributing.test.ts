/** What contributors and reporters are asked for exists, and nobody is led to publish confidential data. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { manifest, root, textOf } from './source.js';

interface Form {
  readonly name: string;
  readonly description: string;
  readonly body: readonly {
    readonly type: string;
    readonly id?: string;
    readonly attributes: { readonly label?: string; readonly value?: string; readonly description?: string };
    readonly validations?: { readonly required?: boolean };
  }[];
}

const folder = '.github/ISSUE_TEMPLATE';
const forms = readdirSync(join(root, folder))
  .filter((file) => file !== 'config.yml')
  .map((file) => ({ file, form: parse(textOf(`${folder}/${file}`)) as Form }));

test('there are forms for bugs, features and help with wiring', () => {
  expect(forms.map(({ file }) => file)).toEqual(['bug.yml', 'feature.yml', 'wiring.yml']);
});

describe.each(forms)('the form $file', ({ form: { name, description, body } }) => {
  test('has what GitHub requires of a form', () => {
    expect([name, description]).toEqual([expect.stringMatching(/\w/), expect.stringMatching(/\w/)]);
    const inputs = body.filter(({ type }) => type !== 'markdown');
    expect(inputs.length).toBeGreaterThan(1);
    expect(body.filter(({ type }) => !['markdown', 'textarea', 'checkboxes'].includes(type))).toEqual([]);
    expect(inputs.filter(({ id, attributes }) => !/^[\w-]+$/.test(id ?? '') || !attributes.label)).toEqual(
      [],
    );
    expect(new Set(inputs.map(({ id }) => id)).size).toBe(inputs.length);
  });

  test('asks first that no secret and no payload is pasted', () => {
    expect(body[0]?.attributes.value).toContain('Never paste secrets, tokens, signatures, payloads');
  });
});

test.each(['bug.yml', 'wiring.yml'])("the form %s requires the doctor's output", (name) => {
  const doctor = forms.find(({ file }) => file === name)?.form.body.find(({ id }) => id === 'doctor');
  expect(doctor?.attributes.description).toContain('npx stablehooks doctor URL');
  expect(doctor?.validations?.required).toBe(true);
});

describe('CONTRIBUTING.md', () => {
  const text = textOf('CONTRIBUTING.md');

  test('names files and folders that exist', () => {
    const named = [...text.matchAll(/`((?:src|test|docs|kit|\.ci)\/[\w./-]*)`/g)].map(
      ([, path = '']) => path,
    );
    expect(named.length).toBeGreaterThan(8);
    const missing = named.filter((path) => !path.includes('NAME') && !existsSync(join(root, path)));
    expect(missing).toEqual([]);
  });

  test('names scripts that exist', () => {
    const named = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name);
    expect(named).toContain('check');
    expect(named.filter((name) => !(name in manifest.scripts))).toEqual([]);
  });
});
