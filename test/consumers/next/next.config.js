/** Nothing is set but that this folder is the whole app. */
export default { turbopack: { root: import.meta.dirname } };
