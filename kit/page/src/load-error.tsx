import { Plain } from './plain';

/**
 * Says why a view could not be loaded, and offers to try again. The text begins with `what`, such as `The coverage
 * could not be read: `.
 */
export function LoadError({
  error,
  reload,
  what = '',
}: {
  /** Why the view could not be loaded. Without an error, nothing is shown. */
  readonly error: string | undefined;
  readonly reload: () => void;
  readonly what?: string;
}) {
  if (error === undefined) return null;
  return (
    <p class="bad" role="alert">
      {what}
      <Plain text={error} />{' '}
      <button type="button" onClick={reload}>
        Try again
      </button>
    </p>
  );
}
