import { Plain } from './plain';

/** The text begins with `what`, such as `The coverage could not be read: `. */
export function LoadError({
  error,
  reload,
  what = '',
}: {
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
