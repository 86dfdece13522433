export function DeliveriesView() {
  return <h2>Deliveries</h2>;
}
