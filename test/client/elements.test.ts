/** The text of each event of a list, as the client keeps it. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readList } from './misbehaving-service.js';

const read = (text: string) => readList(new Response(text));

const event = (payload: string) =>
  `{"id":"evt_1", "type":"transfer.settled","created_at":"2026-03-01T12:00:00Z" ,"payload":${payload}}`;

test('the client keeps the text of each event as the service wrote it', async () => {
  const texts = [
    '{"amount":1e999,"n":9007199254740993,"rate":1.10}',
    String.raw`{"note":"a \"quoted\" ]}, [{ \\", "\\":"\u00e9\/"}`,
    '{ "a" : [ [ ] , { "b" : [ "]" , "}" ] } ] }',
    '{"text":"é 😀\\ud83d"}',
  ].map(event);
  const list = await read(` [ ${texts.join(' ,\n\t')}\r\n] `);
  expect(list.json).toEqual(texts);
  expect(list).toMatchObject({ size: 4, problems: [] });
  expect(list.events).toEqual(texts.map((text) => JSON.parse(text)));
});

test('of each JSON array, the client reads the elements that JSON.parse reads', async () => {
  const blanks = fc
    .array(fc.constantFrom(' ', '\n', '\t', '\r'), { maxLength: 3 })
    .map((all) => all.join(''));
  const element = fc
    .tuple(fc.jsonValue(), blanks, blanks)
    .map(([value, before, after]) => before + JSON.stringify(value) + after);
  const property = fc.asyncProperty(fc.array(element), async (elements) => {
    const text = `[${elements.join(',')}]`;
    const { events, problems, size } = await read(text);
    const values: unknown[] = JSON.parse(text);
    expect(events).toEqual([]);
    expect(size).toBe(values.length);
    expect(problems.map(({ value }) => value)).toEqual(values);
    expect(problems.map(({ index }) => index)).toEqual([...values.keys()]);
  });
  await fc.assert(property);
});

test.each([
  ...['', '[', '[1', '[1,', '[1,]', '[,1]', '[,]', '[1 2]', '[1]]', '[1].5', '[1],', '[1]e1', '[1}', '[}]'],
  ...[
    '[{]}]',
    '["]',
    '["\\"]',
    '[\u00a0]',
    '[1\u00a0]',
    '\ufeff\ufeff[]',
    '[01]',
    '[[1]',
    '[{"a":1]',
    "['a']",
  ],
])('a list of the text %j is not JSON', async (text) => {
  expect(() => JSON.parse(text)).toThrow();
  await expect(read(text)).rejects.toThrow('is not JSON');
});

test.each(['{}', '1', '"[]"', 'null', ' {"events":[]}'])(
  'other JSON than an array, such as %j, is not a list',
  async (text) => {
    await expect(read(text)).rejects.toThrow('it is not an array');
  },
);
