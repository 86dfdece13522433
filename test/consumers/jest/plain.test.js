const { createReceiver } = require('stablehooks');
const { exampleEvent } = require('stablehooks/testing');

test('a handler of a test without TypeScript runs', async () => {
  const handler = jest.fn();
  const receiver = createReceiver({ secret: 'whsec_jest', handlers: { 'transfer.settled': handler } });
  const event = exampleEvent('transfer.settled');
  expect((await receiver.handle(event, 'push')).kind).toBe('handled');
  expect(handler).toHaveBeenCalledTimes(1);
});
