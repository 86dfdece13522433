/** What a PromQL expression selects, by the parser of Prometheus' own editor. */
import type { SyntaxNode } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';

/** A selector of an expression: `name{label="value"}`. */
export interface Selector {
  /** Several, if the name is a pattern such as `a(_b)?`. */
  readonly names: readonly string[];
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
}

/** @throws {SyntaxError} with the place where the parser stopped to understand. */
export function parseExpression(expression: string) {
  const tree = parser.parse(expression);
  const selectors: Selector[] = [];
  const grouping: string[] = [];
  const text = ({ from, to }: SyntaxNode) => expression.slice(from, to);
  tree.iterate({
    enter({ type, node }) {
      if (type.isError) throw new SyntaxError(`not PromQL from here on: ${expression.slice(node.from)}`);
      if (type.name === 'VectorSelector') selectors.push(toSelector(node, text));
      if (type.name === 'GroupingLabels') grouping.push(...node.getChildren('LabelName').map(text));
    },
  });
  return { selectors, grouping };
}

function toSelector(node: SyntaxNode, text: (node: SyntaxNode) => string): Selector {
  const matchers = (node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? []).map(
    (matcher) => {
      const [label = '', operator = '', value = ''] = ['LabelName', 'MatchOp', 'StringLiteral'].map(
        (name) => {
          const child = matcher.getChild(name);
          return child === null ? '' : text(child);
        },
      );
      return { label, operator, value: value.slice(1, -1) };
    },
  );
  const identifier = node.getChild('Identifier');
  if (identifier !== null) return { names: [text(identifier)], matchers };
  const pattern = matchers.find(({ label }) => label === '__name__')?.value ?? '';
  return { names: spellingsOf(pattern), matchers: matchers.filter(({ label }) => label !== '__name__') };
}

/** `a(_b)?_c` is `a_c` or `a_b_c`. */
function spellingsOf(pattern: string): readonly string[] {
  const [, before, optional, after] = /^(\w+)\((\w+)\)\?(\w*)$/.exec(pattern) ?? [];
  return before === undefined ? [pattern] : [`${before}${after}`, `${before}${optional}${after}`];
}
