/** Express 4 and 5: the receiver above the parser that the rest of the app wants. */
import { createServer } from 'node:http';
import express from 'express';
import { toExpressHandler } from 'stablehooks/express';
import { createContractReceiver } from './contract-receiver.js';

const app = express();
app.all('/hooks', toExpressHandler(createContractReceiver()));
app.use(express.json());

const server = createServer(app);
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
