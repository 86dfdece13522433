import { signal } from '@preact/signals';
import { Plain } from './plain';

/** The result of the last action, or why it failed. */
const notice = signal<{ readonly text: string; readonly failed: boolean } | undefined>(undefined);

/** Runs an action, and shows the reader how it ended. Resolves to its result, or to `undefined` if it failed. */
export async function attempt<Result>(
  work: () => Promise<Result>,
  describe: (result: Result) => string,
): Promise<Result | undefined> {
  try {
    const result = await work();
    tellReader(describe(result));
    return result;
  } catch (error) {
    tellReader(error instanceof Error ? error.message : 'The action failed.', true);
    return undefined;
  }
}

/** Tells the reader about something that the page itself did, such as a copy. */
export function tellReader(text: string, failed = false): void {
  notice.value = { text, failed };
}

/** Removes the notice, for example because the reader does something else. */
export function forgetNotice(): void {
  notice.value = undefined;
}

/** The element for the notice. It is always in the page, so that a screen reader announces its content. */
export function Notice() {
  const told = notice.value;
  return (
    <div class="notices" role="status">
      {told !== undefined && (
        <div class={told.failed ? 'notice notice-failed' : 'notice'}>
          <Plain text={told.text} />
          <button type="button" class="quiet" onClick={forgetNotice}>
            Dismiss
          </button>
        </div>
      )}
    </div>
  );
}
