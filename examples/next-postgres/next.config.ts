/** The receiver needs no configuration in either router. */
import type { NextConfig } from 'next';

const config: NextConfig = {};

export default config;
