/** A process of a fuzzer that answers questions. One that ends or hangs is recognized from outside. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export class Child {
  readonly #process: ChildProcess;
  readonly #exit: Promise<undefined>;
  /** How it ended before it was asked to. */
  ended: 'by itself' | 'without an answer' | undefined;

  constructor(module: string, execArgv: readonly string[] = []) {
    this.#process = fork(fileURLToPath(new URL(module, import.meta.url)), [], {
      execArgv: [...execArgv, '--import', 'tsx'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#exit = once(this.#process, 'exit').then(() => {
      this.ended ??= 'by itself';
      return undefined;
    });
  }

  /** The answer; `undefined` when the process ends before, by itself or because it takes too long. */
  async ask<Answer>(question: object, limitMs: number): Promise<Answer | undefined> {
    if (this.ended !== undefined) return undefined;
    const answer = once(this.#process, 'message').then(([value]) => value as Answer);
    this.#process.send(question, () => undefined);
    const limit = setTimeout(() => {
      this.ended = 'without an answer';
      this.#process.kill('SIGKILL');
    }, limitMs);
    const answered = await Promise.race([answer, this.#exit]);
    clearTimeout(limit);
    return answered;
  }

  /** Disconnects, and resolves with whether the process then ended by itself. */
  async close(limitMs: number): Promise<boolean> {
    if (this.#process.connected) this.#process.disconnect();
    const limit = setTimeout(() => this.#process.kill('SIGKILL'), limitMs);
    await this.#exit;
    clearTimeout(limit);
    return this.#process.exitCode === 0;
  }
}
