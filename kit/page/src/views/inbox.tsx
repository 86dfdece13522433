export function InboxView() {
  return <h2>Inbox</h2>;
}
