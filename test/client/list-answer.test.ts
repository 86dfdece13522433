/** The time of the service, as the client reads it from a list. */
import { expect, test } from 'vitest';
import { readList } from './misbehaving-service.js';

const servedAt = async (date: string) => (await readList(new Response('[]', { headers: { date } }))).servedAt;

test('servedAt is the time of a Date header in the form that RFC 9110 demands', async () => {
  const times = [
    0,
    Date.UTC(2024, 1, 29, 23, 59, 59),
    Date.UTC(2026, 10, 3, 4, 5, 6),
    Date.UTC(9999, 11, 31),
  ];
  for (const time of times) expect(await servedAt(new Date(time).toUTCString())).toBe(time);
  expect(await servedAt('Sun, 06 Nov 1994 08:49:37 GMT')).toBe(Date.UTC(1994, 10, 6, 8, 49, 37));
});

test.for([
  ...['0', '1767225607000', '', '2026-01-01T00:00:07Z', 'Thu, 01 Jan 2026'],
  // Without a zone, the zone of this machine would decide.
  ...['Thu, 01 Jan 2026 00:00:07 +0000', 'Thu, 01 Jan 2026 00:00:07'],
  // Days and times that do not exist.
  ...['Tue, 31 Feb 2026 00:00:07 GMT', 'Fri, 01 Jan 2026 00:00:07 GMT', 'Thu, 01 Jan 2026 25:00:07 GMT'],
  // Obsolete forms.
  ...['Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'],
])('servedAt is null when the Date header is "%s"', async (date) => {
  expect(await servedAt(date)).toBeNull();
});
