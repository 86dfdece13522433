import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { draw, RECORDING, record } from './recording.js';

/** The text of an SVG, without what differs between runs. */
const textOf = (svg: string) =>
  [...svg.matchAll(/<text[^>]*>(.*)<\/text>/g)]
    .map(([, line = '']) =>
      line
        .replaceAll(/evt_[\w-]+/g, 'EVENT')
        .replaceAll(/\d+ ms/g, 'N ms')
        .replaceAll(/ +/g, ' '),
    )
    .join('\n');

test('the recording of docs/doctor.md shows what trigger and doctor print', async () => {
  // `npm run recording` draws it again.
  expect(textOf(readFileSync(RECORDING, 'utf8'))).toBe(textOf(draw(await record())));
});
