/** For Node; a delivery comes from another site by nature, whatever its content-type. */
import adapter from '@sveltejs/adapter-node';

export default { kit: { adapter: adapter(), csrf: { trustedOrigins: ['*'] } } };
