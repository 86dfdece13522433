/** Two apps that share one inbox by mistake. */
import { createReceiver, type Handlers } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';

const own = ownPostgres();

test.each([false, true])(
  'a duplicate that another app ignored is logged once per type by the app that has a handler (transactional: %s)',
  async (transactional) => {
    const lines: string[] = [];
    const clock = { elapsed: 0 };
    const log = (line: string) => void lines.push(line);
    const open = (handlers: Handlers) => {
      const inbox = transactional ? postgresInbox(own.pool, { transactional }) : postgresInbox(own.pool);
      const logger = { warn: () => undefined, error: log };
      return createReceiver({
        secret: 'x',
        inbox: inbox as ReturnType<typeof postgresInbox>,
        logger,
        handlers,
        runtime: { elapsed: () => clock.elapsed },
      });
    };
    const transfers = open({ 'transfer.settled': () => undefined });
    const redeems = open({ 'redeem.completed': () => undefined });
    const kindOf = async (receiver: typeof transfers, event: ReturnType<typeof exampleEvent>) =>
      (await receiver.handle(event, 'push')).kind;

    const handled = exampleEvent('redeem.completed');
    expect([await kindOf(redeems, handled), await kindOf(redeems, handled)]).toEqual([
      'handled',
      'duplicate',
    ]);
    for (const event of [exampleEvent('transfer.settled'), exampleEvent('transfer.settled')]) {
      expect([await kindOf(redeems, event), await kindOf(transfers, event)]).toEqual([
        'ignored',
        'duplicate',
      ]);
      await expect.poll(() => lines).toHaveLength(1);
      expect(lines[0]).toMatch(
        /^stablehooks: evt_\S+ is done, but no handler ran: .* no handler for transfer\.settled/,
      );
      clock.elapsed += 3_600_000;
    }
    const other = exampleEvent('redeem.completed');
    expect([await kindOf(transfers, other), await kindOf(redeems, other)]).toEqual(['ignored', 'duplicate']);
    await expect.poll(() => lines.length).toBeGreaterThan(1);
    expect(lines.slice(1)).toEqual([expect.stringContaining('no handler for redeem.completed')]);
  },
);
