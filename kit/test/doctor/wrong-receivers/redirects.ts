import type { WrongReceiver } from './wrong-receiver.js';

/** Redirects every request to a login page, as a proxy in front of an app can. */
export const redirects: WrongReceiver = () => (_, response) => {
  response.writeHead(307, { location: '/login?next=token' }).end();
};
