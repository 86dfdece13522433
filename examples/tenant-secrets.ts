import { LRUCache } from 'lru-cache';
import type { ReceiverOptions } from 'stablehooks';

type FetchSecrets = (tenant: string, signal: AbortSignal) => Promise<string[]>;

/** The `secret` of a receiver at /hooks/TENANT, read from a secret manager once a minute. */
export function tenantSecrets(tenants: readonly string[], fetchSecrets: FetchSecrets) {
  const cache = new LRUCache<string, string[]>({
    max: tenants.length,
    ttl: 60_000,
    allowStaleOnFetchRejection: true,
    async fetchMethod(tenant) {
      try {
        return await fetchSecrets(tenant, AbortSignal.timeout(5_000));
      } catch (error) {
        console.error(`The webhook secret of ${tenant} could not be fetched.`, error);
        throw error;
      }
    },
  });
  const secret: ReceiverOptions['secret'] = ({ path }) => {
    const tenant = tenants.find((name) => path === `/hooks/${name}`);
    return tenant === undefined ? null : cache.forceFetch(tenant);
  };
  return secret;
}
