import { Plain } from './plain';

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
