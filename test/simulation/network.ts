/** The networks between the service and the app: requests and answers are slow, lost, repeated, forged. */
import type { Sandbox } from 'stablehooks-kit/sandbox';
import type { App } from './app.js';
import type { Faults, Scenario } from './scenario.js';
import type { Process, World } from './world.js';

const RESET = 'The connection was reset.';

/** A balancer in front of the app's processes. */
export interface Balancer {
  /** The `fetch` of an endpoint. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** How many deliveries are in a process, and how many copies have not arrived yet. */
  readonly underWay: () => number;
}

export function toBalancer(world: World, faults: Partial<Faults>, processes: () => readonly App[]): Balancer {
  let underWay = 0;

  /** Resolves when the request has been answered. It fails when the process dies before. */
  async function deliver(request: Request): Promise<Response> {
    const [first, ...others] = processes();
    if (first === undefined) throw new TypeError('The connection was refused.');
    const { process, handler } = world.random.pick([first, ...others]);
    world.note(process, 'gets a delivery');
    underWay += 1;
    return await new Promise<Response>((resolve, reject) => {
      const forget = process.onEnd(() => reject(new TypeError(RESET)));
      handler(request).then(resolve, reject).finally(forget);
    }).finally(() => {
      underWay -= 1;
    });
  }

  async function fetch(request: Request): Promise<Response> {
    const isRepeated = world.strikes('deliveryRepeated', faults.deliveryRepeated);
    const isForged = world.strikes('forged', faults.forged);
    if (isRepeated || isForged) await sendMore(request.clone(), { isRepeated, isForged });
    await world.hop(world.outside, 'a delivery is under way');
    if (world.strikes('requestLost', faults.requestLost)) return await new Promise(() => undefined);
    const response = await deliver(request);
    world.note(world.outside, `a delivery is answered ${response.status}`);
    await world.hop(world.outside, 'an answer to a delivery is under way');
    if (world.strikes('answerLost', faults.answerLost)) return await new Promise(() => undefined);
    return response;
  }

  /** Sends a copy later, and something that is not genuine, beside a delivery. */
  async function sendMore(
    request: Request,
    { isRepeated, isForged }: { readonly isRepeated: boolean; readonly isForged: boolean },
  ): Promise<void> {
    const { url, method, headers } = request;
    // A body that is cut has no copy.
    const body = await request.text().catch(() => undefined);
    if (body === undefined) return;
    const send = (text: string, ms: number) => {
      underWay += 1;
      world.after(world.outside, ms, 'a copy of a delivery arrives', () => {
        underWay -= 1;
        deliver(new Request(url, { method, headers, body: text })).catch(() => undefined);
      });
    };
    if (isRepeated) send(body, world.random.integer(0, 20_000));
    if (isForged) send(forge(body, world.random.integer(0, 2)), world.random.integer(0, 1_000));
  }

  return { fetch, underWay: () => underWay };
}

/** A body that the signature does not fit: another event, another amount, other white space. */
function forge(body: string, way: number): string {
  if (way === 0) return body.replace(/"id":"\w+"/, '"id":"evt_forged"');
  if (way === 1) return body.replace(/"amount":"\d/, '"amount":"9');
  return ` ${body}`;
}

/** The `fetch` of a client in a process. */
export function toServiceFetch({
  world,
  process,
  sandbox,
  scenario: { faults, serviceFaults },
}: {
  readonly world: World;
  readonly process: Process;
  readonly sandbox: Sandbox;
  readonly scenario: Scenario;
}) {
  async function request(url: string, init: RequestInit): Promise<Response> {
    await world.hop(process, 'a request to the service is under way');
    if (world.strikes('requestLost', faults.requestLost)) throw new TypeError(RESET);
    const response = await serve(url, init);
    await world.hop(process, `the service answers ${response.status}`);
    if (world.strikes('answerLost', faults.answerLost)) throw new TypeError(RESET);
    return response;
  }

  async function serve(url: string, { signal: _, ...rest }: RequestInit): Promise<Response> {
    const startedAt = world.now;
    try {
      const response = await sandbox.fetch(new Request(url, rest));
      if (!world.calm) {
        if (world.now > startedAt) world.count('apiSlow');
        countFaults(response.status, await response.clone().text(), new URL(url));
      }
      return response;
    } catch (error) {
      world.count('apiReset');
      throw error;
    }
  }

  /** Counts what is wrong with an answer of the list. */
  function countFaults(status: number, body: string, { searchParams }: URL): void {
    if (status === 429) world.count('apiTooManyRequests');
    if (status === 500) world.count('apiServerError');
    if (status !== 200) return;
    const { listLagMs = 0, listOrder = 'newest', listFilterAfterCap } = serviceFaults;
    if (listOrder !== 'newest') world.count(`list ${listOrder}`);
    if (listFilterAfterCap && searchParams.has('type')) world.count('listFilterAfterCap');
    const events = new Map(sandbox.events().map((event) => [event.id, event]));
    const isYoung = ({ created_at }: { readonly created_at: string }) =>
      Date.parse(created_at) > world.now - listLagMs;
    if ([...events.values()].some(isYoung)) world.count('listLagMs');
    const listed = parse(body);
    if (listed === undefined) world.count('apiMalformed');
    else {
      if (new Set(listed.map(({ id }) => id)).size < listed.length) world.count('listDuplicate');
      const isWrong = listed.some(({ id, delivered }) => events.get(id)?.delivered !== delivered);
      if (isWrong) world.count('listWrongDelivered');
    }
  }

  return (url: string, init: RequestInit): Promise<Response> =>
    new Promise((resolve, reject) => {
      const { signal } = init;
      const abort = () => reject(signal?.reason);
      if (signal?.aborted) abort();
      signal?.addEventListener('abort', abort, { once: true });
      request(url, init)
        .then(resolve, reject)
        .finally(() => signal?.removeEventListener('abort', abort));
    });
}

function parse(body: string): readonly { readonly id: string; readonly delivered: boolean }[] | undefined {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
