import { createContractReceiver } from '../contracts/index.js';
import { FRAMEWORKS } from './frameworks.js';
import { describeContract, listen } from './listening.js';

for (const { name, serve } of FRAMEWORKS) {
  describeContract(name, async () => listen(await serve(createContractReceiver())));
}
