/** Nothing to configure: the receiver works in both routers as they are. */
import type { NextConfig } from 'next';

const config: NextConfig = {};

export default config;
