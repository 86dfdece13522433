import { Redis } from 'ioredis';
import { fromIoredis } from 'stablehooks/inboxes/redis';
import { inboxContract } from '../contracts/index.js';
import { describeRedis } from './redis-contract.js';

describeRedis('ioredis', inboxContract, async ({ url }) => {
  const [first, second] = [new Redis(url), new Redis(url)];
  const end = () => Promise.all([first.quit(), second.quit()]);
  return { first: fromIoredis(first), second: fromIoredis(second), end };
});
