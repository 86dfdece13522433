/** A transaction of a handler, on a connection of one process. */
import type { Lease } from 'stablehooks';
import { type Call, callInbox, LOST, type Port } from './inbox-call.js';
import type { Attempt } from './promises.js';
import type { TransactionalStore } from './transactional-store.js';

export class Transaction {
  readonly lease: Lease;
  /** Rejects when the process learns that its server has ended the transaction. */
  readonly lost: Promise<never>;
  readonly #port: Port<TransactionalStore>;
  readonly #written: Attempt[] = [];
  #isOpen = false;
  #onLost: (error: Error) => void = () => undefined;

  constructor(port: Port<TransactionalStore>, lease: Lease) {
    this.#port = port;
    this.lease = lease;
    this.lost = new Promise((_, reject) => {
      this.#onLost = reject;
    });
    this.lost.catch(() => undefined);
  }

  /** Returns `false` if the transaction must not go on. */
  async begin(): Promise<boolean> {
    const { inbox, promises, process } = this.#port;
    const limitMs = await this.#call({
      what: 'begin',
      effect: () => inbox.begin(this.lease),
      onEffect: (limitMs) => {
        promises.begins(process, this.lease, limitMs !== undefined);
        if (limitMs !== undefined) this.#open(limitMs);
      },
    });
    return limitMs !== undefined;
  }

  #open(limitMs: number): void {
    const { world, process, scenario } = this.#port;
    this.#isOpen = true;
    process.onEnd(() => this.#end());
    world.after(world.outside, limitMs, 'the time limit of a transaction', () =>
      this.#cut('a server ends a transaction at its time limit'),
    );
    if (!world.random.chance(scenario.faults.transactionLost ?? 0)) return;
    world.after(world.outside, world.random.integer(0, limitMs), 'a connection fails', () => {
      if (!world.calm) this.#cut('transactionLost');
    });
  }

  /** As the server does at the time limit, or if the connection fails. */
  #cut(why: string): void {
    const { world, promises, process } = this.#port;
    if (!this.#isOpen) return;
    world.count(why);
    world.note(world.outside, why, this.lease.id);
    promises.cutOff(this.lease);
    this.#end();
    // With some drivers it learns of that at its next statement.
    if (process.isCutOff || world.random.chance(0.5)) return;
    world
      .hop(process, 'learns that its transaction has ended', this.lease.id)
      .then(() => this.#onLost(new Error(LOST)));
  }

  /** Rolls back what is open. */
  #end(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#port.inbox.rollBack(this.lease);
    this.#port.promises.rolledBack(this.lease);
  }

  /** An effect of the handler. */
  async write(attempt: Attempt): Promise<void> {
    const { world, process } = this.#port;
    await world.hop(process, 'writes in its transaction', this.lease.id);
    if (!this.#isOpen) throw new Error('The transaction has ended.');
    this.#written.push(attempt);
  }

  /** After the handler has thrown. It never rejects. */
  async rollBack(): Promise<void> {
    if (!this.#isOpen) return;
    this.#port.promises.transactionEnds(this.lease, false);
    const effect = () => this.#end();
    await this.#call({ what: 'rollback', effect, onEffect: () => undefined }).catch(() => undefined);
  }

  /** Returns `false` if the lease is lost. */
  async commit(): Promise<boolean> {
    const { inbox, promises } = this.#port;
    if (this.#isOpen) promises.transactionEnds(this.lease, true);
    const isCompleted = await this.#call({
      what: 'commit',
      effect: async () => (this.#isOpen ? inbox.commit(this.lease) : undefined),
      onEffect: (isCompleted) => {
        if (isCompleted === undefined) return;
        this.#isOpen = false;
        promises.completed(this.lease, isCompleted, this.#written);
      },
    });
    if (isCompleted === undefined) throw new Error(LOST);
    return isCompleted;
  }

  /** If it fails, so does the connection, and the server rolls back what is open. */
  async #call<Answer>(call: Call<Answer>): Promise<Answer> {
    const { lease } = this;
    try {
      return await callInbox(this.#port, { ...call, id: lease.id, lease });
    } catch (error) {
      this.#end();
      throw error;
    }
  }
}
