import { Redis } from 'ioredis';
import { fromIoredis } from 'stablehooks/inboxes/redis';
import { describeRedis } from './redis-contract.js';

describeRedis('ioredis', 'ioredis', async ({ url }) => {
  const [first, second] = [new Redis(url), new Redis(url)];
  const end = () => Promise.all([first.quit(), second.quit()]);
  return { first: fromIoredis(first), second: fromIoredis(second), end };
});
