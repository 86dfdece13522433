/** Returns an object without members that are `undefined`, because an inbox refuses such members as conditions. */
export function givenOf<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Value;
}
