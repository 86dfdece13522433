import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { bundle } from '../bundle.js';
import { run } from '../child.js';

test('receiver.start() keeps its process alive until its signal aborts', async () => {
  const program = await bundle(new URL('./start-process.ts', import.meta.url));
  try {
    const cwd = fileURLToPath(new URL('.', import.meta.url));
    expect(await run({ args: [program.file], cwd })).toBe('evt_1 ran\nevt_2 ran\nended\n');
  } finally {
    await program.remove();
  }
});
