/** An inbox rejects conditions that are `undefined`. */
export function givenOf<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Value;
}
