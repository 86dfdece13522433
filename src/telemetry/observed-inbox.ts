import { context } from '@opentelemetry/api';
import { isPromise } from '../core/awaitable.js';
import { decorateInbox } from '../core/decorate-inbox.js';
import type { UnknownEvent } from '../core/events.js';
import type { Inbox, Lease } from '../core/ports.js';
import type { Step, Steps } from './steps.js';

/** Observes each step of an inbox. */
export function observeInbox(inbox: Inbox<unknown>, steps: Steps): Inbox<unknown> {
  /** The events of leases, because an inbox completes a lease without its event. */
  const events = new WeakMap<Lease, UnknownEvent>();
  const beginEnd = (operation: 'complete' | 'fail', lease: Lease) =>
    steps.begin(operation, { event: events.get(lease), id: lease.id });
  const beginPage = (operation: 'record' | 'ignore', page: readonly UnknownEvent[]) =>
    steps.begin(operation, { event: page.length === 1 ? page[0] : undefined });
  const { transaction } = inbox;

  return decorateInbox(inbox, {
    claim(event, options) {
      const parent = context.active();
      return steps.run(
        steps.begin('claim', { event, parent }),
        () => inbox.claim(event, options),
        (claim) => claim?.state === 'claimed' && events.set(claim.lease, event),
      );
    },
    complete: (lease) => steps.run(beginEnd('complete', lease), () => inbox.complete(lease)),
    fail: (lease, failure) => steps.run(beginEnd('fail', lease), () => inbox.fail(lease, failure)),
    record: (page, options) => steps.run(beginPage('record', page), () => inbox.record(page, options)),
    ignore: (page, options) => steps.run(beginPage('ignore', page), () => inbox.ignore(page, options)),
    ...(transaction && {
      async transaction(lease, effect) {
        let commit: Step | undefined;
        let isOver = false;
        const beginCommit = () => {
          // The transaction of a synchronous inbox can end before the promise of its handler.
          if (!isOver) commit = beginEnd('complete', lease);
        };
        const run = (tx: unknown) => {
          const running = effect(tx);
          return isPromise(running) ? running.then(beginCommit) : beginCommit();
        };
        try {
          const isCompleted = await transaction.call(inbox, lease, run);
          if (commit !== undefined) steps.end(commit, undefined, isCompleted);
          return isCompleted;
        } catch (error) {
          if (commit !== undefined) steps.end(commit, error);
          throw error;
        } finally {
          isOver = true;
        }
      },
    }),
  });
}
