import { chmod, open, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';

/**
 * Writes or replaces a file. After an error, such as a full disk, or a crash, the previous file is unchanged. The file keeps
 * its permissions, and a link to it stays.
 */
export async function replaceFile(path: string, text: string): Promise<void> {
  const target = await realpath(path).catch(() => path);
  const before = await stat(target).catch(() => undefined);
  // A device or a pipe has no content to keep.
  if (before !== undefined && !before.isFile()) return writeFile(target, text);
  const draft = `${target}.${crypto.randomUUID()}.draft`;
  try {
    const handle = await open(draft, 'wx');
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (before !== undefined) await chmod(draft, before.mode & 0o7777);
    await rename(draft, target);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    // The name of the draft does not help people.
    throw error instanceof Error && 'path' in error ? Object.assign(error, { path }) : error;
  }
}
