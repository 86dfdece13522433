/** An object without its members that are `undefined`, which an inbox refuses as conditions. */
export function givenOf<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Value;
}
