/** Copies the whole programs of `examples` into the kit, whose command `init` writes them. */
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const examples = fileURLToPath(new URL('../examples', import.meta.url));
const target = fileURLToPath(new URL('../kit/dist/programs', import.meta.url));
/** What running a program there leaves behind. */
const LEFT =
  /^(node_modules|dist|generated|\.next|\.wrangler|\.env|next-env\.d\.ts|worker-configuration\.d\.ts|package-lock\.json|.*\.db(-\w+)?)$/;

rmSync(target, { recursive: true, force: true });
for (const name of readdirSync(examples)) {
  if (!existsSync(join(examples, name, 'package.json'))) continue;
  const filter = (path: string) => !LEFT.test(basename(path));
  cpSync(join(examples, name), join(target, name), { recursive: true, filter });
}
