import type { Inbox } from 'stablehooks';

/** Events of other types are recorded for a later receiver. */
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
      // The results must be in the order of the events.
      return flags.flatMap((selected) => (selected ? own : others).splice(0, 1));
    },

    takeDue: (options) =>
      inbox.takeDue({ ...options, types: options.types.filter((type) => types.includes(type)) }),
  };
}
