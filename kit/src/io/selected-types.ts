import type { Inbox } from 'stablehooks';

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
      const flags = events.map(isSelected);
      const recordThose = (selected: boolean) => {
        const only = <T>(list: readonly T[]) => list.filter((_, index) => flags[index] === selected);
        const those = {
          json: json && only(json),
          keys: keys && only(keys),
          dueInMs: selected ? dueInMs : null,
        };
        return inbox.record(only(events), { ...options, ...those });
      };
      if (!flags.includes(false)) return recordThose(true);
      if (!flags.includes(true)) return recordThose(false);
      const [own, others] = [[...(await recordThose(true))], [...(await recordThose(false))]];
      // The answers come in the order of the events.
      return flags.flatMap((selected) => (selected ? own : others).splice(0, 1));
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
