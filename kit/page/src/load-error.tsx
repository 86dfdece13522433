import { Plain } from './plain';

/** Says why a view could not be loaded, and offers to try again. `what` comes first, such as `The coverage could not be read: `. */
export function LoadError({
  error,
  reload,
  what = '',
}: {
  /** Nothing is shown without one. */
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
