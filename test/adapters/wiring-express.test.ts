import { createServer } from 'node:http';
import express from 'express';
import express4 from 'express4';
import { toExpressHandler } from 'stablehooks/express';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import supertest from 'supertest';
import { describe, expect, test } from 'vitest';
import { createObserved, deliverTo, expectUnavailable, secret } from './observed.js';

describe.each([
  { name: 'Express 4', framework: express4 },
  { name: 'Express 5', framework: express },
])('the $name handler', ({ framework }) => {
  test('a signed request that supertest sends is handled, its repetition is a duplicate, and a changed body is answered 401', async () => {
    const { receiver } = createObserved();
    const app = framework();
    app.post('/hooks', toExpressHandler(receiver));
    app.use(framework.json());
    const { url, headers, body } = await signedRequest(exampleEvent('transfer.settled'), {
      secret,
      url: '/hooks',
    });

    const post = (text: string) => supertest(app).post(url).set(headers).send(text);

    await post(body.toString()).expect(200, { outcome: 'handled' });
    await post(body.toString()).expect(200, { outcome: 'duplicate' });
    await post(`${body} `).expect(401);
  });

  test.each([
    { parser: framework.json(), type: 'application/json', words: /express\.json/ },
    {
      parser: framework.urlencoded(),
      type: 'application/x-www-form-urlencoded',
      words: /express\.urlencoded/,
    },
    { parser: framework.text({ type: '*/*' }), type: 'text/plain', words: /express\.text/ },
  ])(
    'the error of a delivery whose $type body was parsed before names the parser',
    async ({ parser, type, words }) => {
      const { receiver, outcomes } = createObserved();
      const app = framework();
      app.use(parser);
      app.post('/hooks', toExpressHandler(receiver));

      const message = await expectUnavailable(await deliverTo(createServer(app), type), outcomes);

      expect(message).toMatch(words);
      expect(message).toContain("app.post('/hooks', toExpressHandler(receiver)); app.use(express.json());");
    },
  );

  test('a delivery whose body a parser skipped because of its content-type is handled', async () => {
    const { receiver } = createObserved();
    const app = framework();
    app.use(framework.json(), framework.urlencoded());
    app.post('/hooks', toExpressHandler(receiver));

    expect((await deliverTo(createServer(app), 'text/plain')).status).toBe(200);
  });
});
