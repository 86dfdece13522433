import { signal } from '@preact/signals';

/** What the last action did, or why it failed. */
const notice = signal<{ readonly text: string; readonly failed: boolean } | undefined>(undefined);

/** Runs an action, and tells the reader how it ended. Resolves to its result, or to `undefined` if it failed. */
export async function attempt<Result>(
  work: () => Promise<Result>,
  describe: (result: Result) => string,
): Promise<Result | undefined> {
  try {
    const result = await work();
    notice.value = { text: describe(result), failed: false };
    return result;
  } catch (error) {
    notice.value = { text: error instanceof Error ? error.message : 'It failed.', failed: true };
    return undefined;
  }
}

/** Tells the reader something that was done in the page itself, such as a copy. */
export function tellReader(text: string, failed = false): void {
  notice.value = { text, failed };
}

export function Notice() {
  const { text = '', failed = false } = notice.value ?? {};
  return (
    <div class={failed ? 'notice notice-failed' : 'notice'} role="status" hidden={text === ''}>
      <span>{text}</span>
      {text !== '' && (
        <button type="button" class="quiet" onClick={() => (notice.value = undefined)}>
          Dismiss
        </button>
      )}
    </div>
  );
}
