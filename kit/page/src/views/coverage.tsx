export function CoverageView() {
  return <h2>Coverage</h2>;
}
