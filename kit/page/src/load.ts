import { useEffect, useRef, useState } from 'preact/hooks';
import { connection, type LiveEntry, onLive } from './live';

/** If a later load fails, the data stays. */
export interface Loaded<Data> {
  readonly data: Data | undefined;
  readonly error: string | undefined;
  readonly reload: () => void;
}

export function useEvery(intervalMs: number, work: () => void): void {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden && connection.value.open) latest.current();
    }, intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
}

/** Waits `restMs` between requests, and sends none while the page is hidden. */
export function useLoaded<Data>(
  key: string,
  load: (signal: AbortSignal) => Promise<Data>,
  isStale: (entry: LiveEntry) => boolean = ({ kind }) => kind === 'reset',
  restMs = 250,
): Loaded<Data> {
  const [result, setResult] = useState<{
    readonly key: string;
    readonly data?: Data | undefined;
    readonly error?: string | undefined;
  }>({ key });
  const latest = useRef({ load, isStale });
  latest.current = { load, isStale };
  const reload = useRef(() => {});
  const isOpen = connection.value.open;

  useEffect(() => {
    if (!isOpen) return;
    const abort = new AbortController();
    let isLoading = false;
    let rest: ReturnType<typeof setTimeout> | undefined;
    let stale = false;

    async function run(): Promise<void> {
      clearTimeout(rest);
      [isLoading, stale] = [true, false];
      try {
        const data = await latest.current.load(abort.signal);
        if (!abort.signal.aborted) setResult({ key, data });
      } catch (error) {
        const message = error instanceof Error ? error.message : 'The request failed.';
        if (!abort.signal.aborted)
          setResult((before) => ({
            key,
            data: before.key === key ? before.data : undefined,
            error: message,
          }));
      }
      isLoading = false;
      if (abort.signal.aborted) return;
      rest = setTimeout(() => {
        rest = undefined;
        runIfStale();
      }, restMs);
    }
    function runIfStale(): void {
      if (stale && !isLoading && rest === undefined && !document.hidden) void run();
    }

    reload.current = () => {
      stale = true;
      // A request that is already running may have begun before the action.
      if (!isLoading) void run();
    };
    const unsubscribe = onLive((entry) => {
      stale ||= latest.current.isStale(entry);
      runIfStale();
    });
    document.addEventListener('visibilitychange', runIfStale);
    void run();
    return () => {
      abort.abort();
      clearTimeout(rest);
      unsubscribe();
      document.removeEventListener('visibilitychange', runIfStale);
    };
  }, [key, isOpen, restMs]);

  const { data, error } = result.key === key ? result : {};
  return { data, error, reload: () => reload.current() };
}
