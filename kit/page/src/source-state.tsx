import { connection, lost } from './live';
import { Plain } from './plain';
import { Time } from './time';

/** Tells the reader that what the page shows is old, because the source cannot be read. */
export function SourceState({ name }: { readonly name: string }) {
  const state = connection.value.open ? lost.value : undefined;
  return (
    <div role="alert">
      {state !== undefined && (
        <p class="banner">
          <Plain text={name} /> cannot be read since <Time at={state.since} />. <Plain text={state.why} /> The
          page shows what was read before, and goes on when it can be read.
        </p>
      )}
    </div>
  );
}
