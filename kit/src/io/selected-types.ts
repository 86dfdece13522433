import type { Inbox, RecordResult } from 'stablehooks/conformance';

/**
 * The inbox for a receiver that runs only some types. An event of another type is recorded without being run, and the
 * inbox keeps what it knows of it, so that a receiver of that type runs it later.
 */
export function selectTypes(inbox: Inbox, types: readonly string[]): Inbox {
  const isSelected = ({ type }: { readonly type: string }) => types.includes(type);
  return {
    ...inbox,

    async claim(event, options) {
      if (isSelected(event)) return inbox.claim(event, options);
      return { state: 'failed', retryAfterMs: options.leaseMs };
    },

    async record(events, { json, keys, dueInMs, ...options }) {
      const results: RecordResult[] = [];
      for (const selected of [true, false]) {
        const page = [...events.entries()].filter(([, event]) => isSelected(event) === selected);
        if (page.length === 0) continue;
        const recorded = await inbox.record(
          page.map(([, event]) => event),
          {
            ...options,
            dueInMs: selected ? dueInMs : null,
            json: json && page.map(([index]) => json[index] ?? ''),
            keys: keys && page.map(([index]) => keys[index]),
          },
        );
        for (const [position, [index]] of page.entries()) results[index] = recorded[position] ?? 'new';
      }
      return results;
    },

    async takeDue(options) {
      // What is taken first is due again after that time.
      const until = performance.now() + options.visibilityTimeoutMs;
      while (performance.now() < until) {
        const due = await inbox.takeDue({ ...options, types });
        const selected = due.filter(({ event }) => isSelected(event));
        // Events of other types must not hide those that are due after them.
        if (selected.length > 0 || due.length === 0) return selected;
      }
      return [];
    },
  };
}
