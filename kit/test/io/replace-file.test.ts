import { chmod, lstat, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { replaceFile } from '../../src/io/replace-file.js';
import { makeFolder } from '../command.js';

test('a file that is replaced keeps its permissions and the links to it', async () => {
  await using folder = await makeFolder();
  const [path, link] = [folder.at('payloads.ts'), folder.at('link.ts')];
  await writeFile(path, 'before');
  await chmod(path, 0o640);
  await symlink(path, link);
  await replaceFile(link, 'after');
  expect(await readFile(path, 'utf8')).toBe('after');
  expect((await stat(path)).mode & 0o777).toBe(0o640);
  expect((await lstat(link)).isSymbolicLink()).toBe(true);
  expect((await readdir(folder.path)).toSorted()).toEqual(['link.ts', 'payloads.ts']);
});

test('a device is written to, and not replaced', async () => {
  await replaceFile('/dev/null', 'text');
  expect((await stat('/dev/null')).isFile()).toBe(false);
});

test('an error names the file and not the draft of it, which does not stay', async () => {
  await using folder = await makeFolder();
  const path = folder.at('no-folder/coverage.svg');
  await expect(replaceFile(path, 'text')).rejects.toMatchObject({ code: 'ENOENT', path });
  expect(await readdir(folder.path)).toEqual([]);
});
