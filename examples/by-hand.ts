/** A typical handler from samples, with the faults that docs/why.md lists. Do not use it. */
import { createHmac } from 'node:crypto';
import express from 'express';

interface Database {
  /** Returns false if the row existed. */
  insertEvent(id: string): Promise<boolean>;
  credit(account: string, amount: number): Promise<void>;
}

export function createApp(secret: string, db: Database) {
  const app = express();
  app.use(express.json());
  app.post('/hooks', async (req, res) => {
    const expected = createHmac('sha256', secret).update(JSON.stringify(req.body)).digest('hex');
    if (req.get('X-SERVICE-Signature') !== expected) return void res.sendStatus(401);
    const { id, type, payload } = req.body;
    try {
      const isNew = await db.insertEvent(id);
      if (!isNew) return void res.sendStatus(200);
      switch (type) {
        case 'transfer.settled':
          await db.credit(payload.account, Number(payload.amount));
          break;
        default:
          return void res.sendStatus(400);
      }
    } catch (error) {
      console.error(error);
    }
    res.sendStatus(200);
  });
  return app;
}
