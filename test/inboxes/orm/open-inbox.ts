/** A transactional inbox over a data layer of either server. */
import type { Inbox, InboxOperations } from 'stablehooks';
import { mysqlInbox } from 'stablehooks/inboxes/mysql';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import type { AnyDataLayer, PoolOptions } from './data-layer.js';
import { DATA_LAYERS } from './data-layers.js';
import { MYSQL_LAYERS } from './mysql-layers.js';

interface OpenInbox extends Pick<AnyDataLayer, 'effect'> {
  readonly inbox: Inbox<unknown> & InboxOperations;
}

export async function openInbox(layer: string, options: PoolOptions): Promise<OpenInbox> {
  const mysql = await MYSQL_LAYERS[layer]?.(options);
  if (mysql) return { ...mysql, inbox: mysqlInbox(mysql.pool, { transactional: true }) };
  const postgres = await DATA_LAYERS[layer]?.(options);
  if (postgres) return { ...postgres, inbox: postgresInbox(postgres.pool, { transactional: true }) };
  throw new Error(`There is no data layer ${layer}.`);
}
