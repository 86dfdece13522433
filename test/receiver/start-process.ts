/** The process of a test in `start.slow.test.ts`: nothing but `start()` keeps it alive. */
import { createReceiver, memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';

const inbox = memoryInbox();
const controller = new AbortController();
const event = (id: string) => exampleEvent('transfer.settled', { id });
const receiver = createReceiver({
  secret: 'whsec_test',
  inbox,
  handlers: {
    'transfer.settled': async ({ id }) => {
      console.log(`${id} ran`);
      if (id === 'evt_1') await inbox.record([event('evt_2')], { dueInMs: 50, origin: 'pull' });
      else controller.abort();
    },
  },
});
await inbox.record([event('evt_1')], { dueInMs: 50, origin: 'pull' });
receiver.start({ intervalMs: 10, signal: controller.signal });
process.on('exit', () => console.log('ended'));
