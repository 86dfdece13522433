/** The runbook: that the panels, commands and queries it names exist. */
import { PGlite } from '@electric-sql/pglite';
import { createReceiver, PermanentError } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { blocksOf } from '../project/markdown.js';
import { textOf } from '../project/source.js';
import { dashboard } from './documents.js';

const page = textOf('docs/operations.md');

test('every panel that the runbook names is on the dashboard', () => {
  const named = [...page.matchAll(/(?<![*\w])\*([A-Z][^*]+)\*(?!\*)/g)].map(([, title = '']) =>
    title.replaceAll(/\s+/g, ' '),
  );
  expect(named.length).toBeGreaterThan(5);
  const titles = dashboard.panels.map(({ title }) => title);
  expect(named.filter((title) => !titles.includes(title))).toEqual([]);
});

test('every command and flag that the runbook names exists', () => {
  const flags = textOf('docs/command-line-flags.md');
  const code = [
    ...page.matchAll(/`(?:npx )?(?:stablehooks )?((?:inbox|gaps|inspect|doctor|verify|status)\b[^`]*)`/g),
  ]
    .map(([, command = '']) => command)
    .concat(
      [...blocksOf(page, 'sh'), ...blocksOf(page, 'console')].flatMap(
        (block) => block.match(/(?<=npx stablehooks ).*/g) ?? [],
      ),
    )
    .filter((command) => !command.includes('('));
  expect(code.length).toBeGreaterThan(15);
  const names = code.map(
    (command) => /^[a-z-]+(?: (?:stats|errors|list|show|requeue|acknowledge))?/.exec(command)?.[0],
  );
  expect(names.filter((name) => !flags.includes(`\`${name}\``))).toEqual([]);
  const named = code.flatMap((command) => command.match(/--[a-z-]+/g) ?? []);
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter((flag) => !flags.includes(`\`${flag}`))).toEqual([]);
});

test('every SQL block of the runbook runs in Postgres, and shows what is not done', async () => {
  const db = await PGlite.create();
  await migratePostgres(db);
  const receiver = createReceiver({
    secret: 'whsec_test',
    inbox: postgresInbox(db),
    logger: { warn: () => undefined, error: () => undefined },
    handlers: {
      'transfer.settled': () => undefined,
      'transfer.failed': () => {
        throw new PermanentError('The account is closed.');
      },
    },
  });
  await receiver.accept(exampleEvent('transfer.settled'), 'push');
  await receiver.accept(exampleEvent('transfer.failed'), 'push');
  const blocks = blocksOf(page, 'sql');
  expect(blocks.length).toBeGreaterThan(0);
  for (const block of blocks) {
    const { rows } = await db.query(block);
    expect(rows).toMatchObject([{ type: 'transfer.failed', state: 'dead', attempts: 1 }]);
  }
  await receiver.close();
  await db.close();
});
