/** For local use: calls the cron route as Vercel does. */
const { CRON_SECRET = '', PORT = '3000' } = process.env;
const headers = { authorization: `Bearer ${CRON_SECRET}` };
const response = await fetch(`http://localhost:${PORT}/cron`, { headers });
console.log(response.status, await response.text());
process.exitCode = response.ok ? 0 : 1;
