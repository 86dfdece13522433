import { signal } from '@preact/signals';
import { Plain } from './plain';

const notice = signal<{ readonly text: string; readonly failed: boolean } | undefined>(undefined);

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

export function tellReader(text: string, failed = false): void {
  notice.value = { text, failed };
}

export function forgetNotice(): void {
  notice.value = undefined;
}

/** This element is always in the page, so that screen readers announce its content. */
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
