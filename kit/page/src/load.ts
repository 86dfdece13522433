import { useEffect, useRef, useState } from 'preact/hooks';
import { connection, type LiveEntry, onLive } from './live';

/** What was loaded. After a failure the data of before stays. */
export interface Loaded<Data> {
  readonly data: Data | undefined;
  /** Why the last load failed, for the reader. */
  readonly error: string | undefined;
  readonly reload: () => void;
}

/**
 * Loads something now, when the key changes, when the connection returns, and when an entry of the stream makes it
 * stale.
 */
export function useLoaded<Data>(
  key: string,
  load: (signal: AbortSignal) => Promise<Data>,
  isStale: (entry: LiveEntry) => boolean = ({ kind }) => kind === 'reset',
): Loaded<Data> {
  const [result, setResult] = useState<{
    readonly key: string;
    readonly data?: Data;
    readonly error?: string | undefined;
  }>({ key });
  const [count, setCount] = useState(0);
  const latest = useRef({ load, isStale });
  latest.current = { load, isStale };
  const reload = () => setCount((before) => before + 1);
  const isOpen = connection.value.open;

  useEffect(() => {
    if (!isOpen) return;
    const abort = new AbortController();
    latest.current.load(abort.signal).then(
      (data) => setResult({ key, data }),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const message = error instanceof Error ? error.message : 'It failed.';
        setResult((before) => (before.key === key ? { ...before, error: message } : { key, error: message }));
      },
    );
    return () => abort.abort();
  }, [key, count, isOpen]);
  useEffect(
    () =>
      onLive((entry) => {
        if (latest.current.isStale(entry)) reload();
      }),
    [],
  );
  return { data: result.key === key ? result.data : undefined, error: result.error, reload };
}
