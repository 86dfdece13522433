/** Nothing is recorded. Its callers in test/inboxes lose their mark when they are rewritten, and this file goes then. */
export const recorded = (..._subject: readonly unknown[]): Record<never, never> => ({});
