import { type Cell, countAlike, countOf, type Paint, toPlain, toTable } from '../io/output.js';
import type { Certificate, Effect } from './certify.js';
import type { Point, Side } from './protocol.js';

const SHOWN = 60;
const SIDES: readonly Side[] = ['before', 'after', 'fails'];

interface Case {
  readonly name: string;
  readonly at: string;
  readonly effect: Effect;
}

function casesOf({ points, scenarios, unseen }: Certificate): readonly Case[] {
  return [
    ...points.map(({ point, side, effect }) => ({
      name: `${side} ${point.text}`,
      at: placeOf(point),
      effect,
    })),
    ...scenarios.map(({ scenario, effect }) => ({ name: scenario, at: '', effect })),
    ...unseen.map(({ what, at }) => ({ name: what, at, effect: 'not shown' as const })),
  ];
}

function placeOf({ at, nth }: Point): string {
  return nth === 1 ? at : `${at} (call ${nth})`;
}

export function countCases(certificate: Certificate): { readonly failed: number; readonly notShown: number } {
  const effects = casesOf(certificate).map(({ effect }) => effect);
  const notShown = effects.filter((effect) => effect === 'not shown').length;
  return { failed: effects.filter((effect) => effect !== 'once').length - notShown, notShown };
}

export function toText(certificate: Certificate, paint: Paint): string {
  const paintOf = (effect: Effect) => {
    if (effect === 'once') return paint.good;
    return effect === 'not shown' ? paint.doubtful : paint.bad;
  };
  const { points, scenarios, unseen } = certificate;
  const rows = new Map<Point, Cell[]>();
  for (const { point, side, effect } of points) {
    const row = rows.get(point) ?? [...SIDES.map(() => '-'), shorten(point.text), placeOf(point)];
    row[SIDES.indexOf(side)] = { text: effect, paint: paintOf(effect) };
    rows.set(point, row);
  }
  const lines = [toTable([...SIDES, 'call', 'at'], [...rows.values()]), ''];
  for (const { scenario, effect } of scenarios) lines.push(`${paintOf(effect)(effect)}  ${scenario}`);
  for (const { what, at } of unseen)
    lines.push(`${paint.doubtful('not shown')}  ${toPlain(what)} (${toPlain(at)})`);
  return [...lines, '', sumUp(certificate)].join('\n');
}

function shorten(text: string): string {
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN - 1)}…`;
}

function sumUp(certificate: Certificate): string {
  const counts = countAlike(casesOf(certificate).map(({ effect }) => effect)).map(
    ([effect, count]) => `${count} ${effect}`,
  );
  const text = `${countOf(certificate.points.length + certificate.scenarios.length, 'run')}: ${counts.join(', ')}.`;
  if (certificate.hasInbox) return text;
  return `${text} No stablehooks inbox contains the events, so certify could not end the leases of killed processes. Pass --inbox if your app has an inbox.`;
}

export function toJunit(certificate: Certificate): string {
  const cases = casesOf(certificate);
  const { failed, notShown } = countCases(certificate);
  const lines = cases.map(({ name, at, effect }) => {
    const attributes = `classname="certify" name="${toXml(`${name} ${at}`.trim())}"`;
    if (effect === 'once') return `  <testcase ${attributes}/>`;
    const result =
      effect === 'not shown' ? '<skipped message="not shown"/>' : `<failure message="${effect}"/>`;
    return `  <testcase ${attributes}>${result}</testcase>`;
  });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuite name="stablehooks certify" tests="${cases.length}" failures="${failed}" skipped="${notShown}">`,
    ...lines,
    '</testsuite>',
    '',
  ].join('\n');
}

function toXml(text: string): string {
  return toPlain(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
