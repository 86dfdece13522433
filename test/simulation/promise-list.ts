/** The promises that a world checks, as a failing seed prints them. Each has a bug in `planted-bugs.ts` that breaks it. */
export const PROMISES = [
  // Deliveries and outcomes.
  'nothing forged or corrupted gets into the inbox',
  'nothing forged or corrupted is answered 2xx',
  'a genuine delivery is answered 2xx or 5xx',
  'what is answered 2xx is stored, and what is answered 200 needs no run',
  'an outcome says what the inbox has',
  'an event is queued only where it is durable',
  'receive, accept and handle never reject',
  'redrive rejects only when the inbox fails',
  'a redrive ends with its signal',
  'no outcome is an unexpected error',
  'a timer never throws',
  // Leases.
  'an inbox fails only when its connection does',
  'an event is new once',
  'an event is leased once at a time',
  'every claim counts as an attempt',
  'a lost lease changes nothing',
  'a valid lease completes or fails its event',
  'what is done or dead is never claimed',
  'what is done or dead is not redriven',
  'what is leased is not redriven',
  'a process redrives only what it has a handler or a queue for',
  'what one process redrives is given to no other',
  'a failed event does not run before its retry time',
  'only unknown types are parked',
  'an event is recorded before it is enqueued',
  'what another process has to run is not done without its handler',
  // Keys.
  'of the events of a key, one is leased at a time',
  'the next event of a key is due when the one before has ended',
  // Handlers and effects.
  'a handler runs once under a claim',
  'no two handlers of an event or a key run at the same time',
  'an event stays claimed while its handler runs',
  'a transaction lives as long as its handler',
  'in a transactional inbox an effect happens once',
  'an effect happens again only if its process died, its mark failed, its handler threw, or it outlived its lease',
  'what is done has had its effect',
  'what is dead has used up its attempts',
  'a step that is stored does not run again',
  'a lost lease stores no step',
  'a handler that asks for later has not failed',
  // Polls.
  'what is proven is in the inbox',
  'one process polls at a time',
  'only the holder of the poll lease saves its state',
  // The end.
  'every event is done, dead or parked in the end',
  'every delivery and every job ends',
  'close() resolves after leaseMs at the latest',
  'when close() has resolved in time, no handler runs',
  'every process can be closed',
] as const;

export type PromiseName = (typeof PROMISES)[number];
