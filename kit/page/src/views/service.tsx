export function ServiceView() {
  return <h2>Service</h2>;
}
