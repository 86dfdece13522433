/** The networks between the service and the app: requests and answers are slow, lost, repeated, forged. */
import { createHmac } from 'node:crypto';
import { SIGNATURE_HEADER } from 'stablehooks';
import type { Sandbox } from 'stablehooks-kit/sandbox';
import type { App } from './app.js';
import type { Promises } from './promises.js';
import type { Faults, Scenario } from './scenario.js';
import type { Process, World } from './world.js';

const RESET = 'The connection was reset.';

/** A delivery as it was sent, and what the signature says of it. */
export interface Delivery {
  /** The id of its event, as the body says. */
  readonly id: string | undefined;
  /** Whether all of its body was sent, and the service has signed it. */
  readonly isGenuine: boolean;
  readonly url: string;
  readonly headers: Headers;
  readonly body: string;
  /** Whether the connection is cut after this part of the body. */
  readonly isCut: boolean;
}

interface Surroundings {
  readonly world: World;
  readonly promises: Promises;
  readonly faults: Partial<Faults>;
  readonly secret: string;
  readonly processes: () => readonly App[];
}

export function toBalancer({ world, promises, faults, secret, processes }: Surroundings) {
  let underWay = 0;

  /** Resolves when the request has been answered. It fails when the process dies before. */
  async function deliver(delivery: Delivery): Promise<Response> {
    const [first, ...others] = processes();
    if (first === undefined) throw new TypeError('The connection was refused.');
    const { process, handler } = world.random.pick([first, ...others]);
    world.note(process, 'gets a delivery', delivery.id);
    underWay += 1;
    return await new Promise<Response>((resolve, reject) => {
      const forget = process.onEnd(() => reject(new TypeError(RESET)));
      const answer = (response: Response) => {
        if (!process.ended) promises.answered(delivery, response.status);
        resolve(response);
      };
      handler(toRequest(delivery)).then(answer, reject).finally(forget);
    }).finally(() => {
      underWay -= 1;
    });
  }

  async function fetch(request: Request): Promise<Response> {
    const delivery = await readDelivery(request, secret);
    if (!delivery.isCut) sendMore(delivery);
    await world.hop(world.outside, 'a delivery is under way', delivery.id);
    if (world.strikes('requestLost', faults.requestLost)) return await new Promise(() => undefined);
    const response = await deliver(delivery);
    world.note(world.outside, `a delivery is answered ${response.status}`, delivery.id);
    await world.hop(world.outside, 'an answer to a delivery is under way', delivery.id);
    if (world.strikes('answerLost', faults.answerLost)) return await new Promise(() => undefined);
    return response;
  }

  /** Sends a copy later, and something that is not genuine, beside a delivery. */
  function sendMore(delivery: Delivery): void {
    const send = (body: string, ms: number) => {
      underWay += 1;
      world.after(world.outside, ms, 'a copy of a delivery arrives', () => {
        underWay -= 1;
        deliver(toDelivery(delivery, body, secret)).catch(() => undefined);
      });
    };
    if (world.strikes('deliveryRepeated', faults.deliveryRepeated)) {
      // Often while the handler runs.
      send(delivery.body, world.random.integer(0, world.random.pick([300, 20_000])));
    }
    if (world.strikes('forged', faults.forged)) {
      send(forge(delivery.body, world.random.integer(0, 2)), world.random.integer(0, 1_000));
    }
  }

  return { fetch, underWay: () => underWay };
}

async function readDelivery(request: Request, secret: string): Promise<Delivery> {
  const decoder = new TextDecoder();
  let body = '';
  try {
    for await (const part of request.body ?? []) body += decoder.decode(part, { stream: true });
  } catch {
    return { ...toDelivery(request, body, secret), isGenuine: false, isCut: true };
  }
  return toDelivery(request, body, secret);
}

/** A whole delivery. It is genuine if its signature fits its body, by `node:crypto` and not by the receiver. */
function toDelivery(
  { url, headers }: Pick<Request, 'url' | 'headers'>,
  body: string,
  secret: string,
): Delivery {
  const isGenuine = headers.get(SIGNATURE_HEADER) === createHmac('sha256', secret).update(body).digest('hex');
  const [, id] = /"id":\s*"(\w+)"/.exec(body) ?? [];
  return { id, isGenuine, url, headers, body, isCut: false };
}

function toRequest({ url, headers, body, isCut }: Delivery): Request {
  if (!isCut) return new Request(url, { method: 'POST', headers, body });
  const cut = new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode(body)),
    // Called once the first part has been read.
    pull: (controller) => controller.error(new Error(RESET)),
  });
  // `duplex` is required with a stream, and TypeScript does not know it.
  const init: RequestInit & { readonly duplex: 'half' } = {
    method: 'POST',
    headers,
    body: cut,
    duplex: 'half',
  };
  return new Request(url, init);
}

/** Another body, which the signature does not fit: another event, a larger amount, other white space. */
function forge(body: string, way: number): string {
  const forged =
    way === 0
      ? body.replace(/"id":\s*"\w+"/, '"id":"evt_forged"')
      : way === 1
        ? body.replace(/"amount":\s*"/, '$&9')
        : ` ${body}`;
  if (forged === body) throw new Error(`This forges nothing: ${body}`);
  return forged;
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
    const listed = parse(body);
    if (listed === undefined) {
      world.count('apiMalformed');
      return;
    }
    const { listLagMs = 0, listOrder = 'newest', listFilterAfterCap = false } = serviceFaults;
    const [type, limit] = [searchParams.get('type'), Number(searchParams.get('limit'))];
    const isOfType = (event: { readonly type: string }) => type === null || event.type === type;
    const all = sandbox.events();
    const old = all.filter(({ created_at }) => Date.parse(created_at) <= world.now - listLagMs);
    if (listOrder !== 'newest' && listed.length > 1) world.count(`list ${listOrder}`);
    const isFilteredLate = listFilterAfterCap && old.length > limit;
    if (isFilteredLate && listed.length < Math.min(limit, old.filter(isOfType).length)) {
      world.count('listFilterAfterCap');
    }
    // A limit omits the newest event last.
    const newest = all.find(isOfType);
    const isLeftOut = newest !== undefined && !listed.some(({ id }) => id === newest.id);
    if (isLeftOut && listOrder === 'newest' && !isFilteredLate) world.count('listLagMs');
    const events = new Map(all.map((event) => [event.id, event]));
    if (new Set(listed.map(({ id }) => id)).size < listed.length) world.count('listDuplicate');
    const isWrong = listed.some(({ id, delivered }) => events.get(id)?.delivered !== delivered);
    if (isWrong) world.count('listWrongDelivered');
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
