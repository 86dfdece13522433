/** The process that `transaction-kills.test.ts` kills: handles what is due in the inbox, over one data layer. */
import { setTimeout as pause } from 'node:timers/promises';
import { workUntilKilled } from '../work-until-killed.js';
import { openInbox } from './open-inbox.js';

const { LAYER = '', URL = '' } = process.env;

const { inbox, effect } = await openInbox(LAYER, { url: URL, connections: 6 });
// What the first statement loads is not the subject of the test.
await inbox.find('evt_none');
workUntilKilled(inbox, async ({ id }, { tx }) => {
  await effect(tx, id);
  await pause(Math.random() * 3);
});
