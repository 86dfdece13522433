/** `npm run recording`: draws `trigger` and `doctor` in a terminal, as an SVG that plays. Its text is what the commands print. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import express from 'express';
import { createReceiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { serve } from './http-server.js';
import { runInTerminal } from './terminal.js';

export const RECORDING: string = fileURLToPath(new URL('../../docs/images/doctor.svg', import.meta.url));
const URL_SHOWN = 'http://localhost:3000/hooks';
const secret = 'sandbox-secret';
const COLUMNS = 84;

interface Played {
  readonly command: string;
  readonly rows: readonly string[];
}

/** Runs the commands against a right endpoint, and against one below a parser that changes the bytes. */
export async function record(): Promise<readonly Played[]> {
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': () => undefined },
    logger: { warn: () => undefined, error: () => undefined },
  });
  await using right = await serve(express().post('/hooks', toExpressHandler(receiver)));
  await using wrong = await serve(express().use(express.json()).post('/hooks', toExpressHandler(receiver)));
  const play = async (url: string, command: string): Promise<Played> => {
    const args = command.replace(URL_SHOWN, `${url}/hooks`).split(' ');
    const env = { STABLEHOOKS_SECRET: secret };
    const { rows } = await runInTerminal(args, { columns: COLUMNS, env });
    return { command, rows: rows.map((row) => row.replaceAll(`${url}/hooks`, URL_SHOWN)) };
  };
  return [
    await play(right.url, `trigger transfer.settled --duplicate --to ${URL_SHOWN}`),
    await play(wrong.url, `doctor ${URL_SHOWN}`),
  ];
}

const LINE = 18;
const toXml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
const toneOf = (row: string) => (/^(?:pass|yes)\b/.test(row) ? 'g' : /^fail\b/.test(row) ? 'r' : 'o');

/** Each line appears when it is printed; a reader who prefers no motion sees all lines. */
export function draw(played: readonly Played[]): string {
  let seconds = 0;
  let y = 44;
  const lines: string[] = [];
  const add = (text: string, tone: string, wait: number) => {
    seconds += wait;
    if (text !== '')
      lines.push(
        `  <text x="16" y="${y}" class="${tone}" style="animation-delay:${seconds.toFixed(2)}s" xml:space="preserve">${toXml(text)}</text>`,
      );
    y += LINE;
  };
  for (const { command, rows } of played) {
    add(`$ npx stablehooks ${command}`, 'c', 0.8);
    seconds += 0.8;
    for (const row of rows) add(row, toneOf(row), 0.12);
    y += LINE / 2;
    seconds += 1.2;
  }
  const width = 720;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y}" width="${width}" height="${y}" role="img" aria-labelledby="t">
  <title id="t">A terminal that runs trigger and doctor</title>
  <style>
    .w { fill: #f6f8fa; stroke: #d0d7de }
    text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; opacity: 0; animation: show 0.01s forwards }
    .c { font-weight: 600; fill: #0969da } .g { fill: #1a7f37 } .r { fill: #cf222e }
    @keyframes show { to { opacity: 1 } }
    @media (prefers-reduced-motion: reduce) { text { opacity: 1; animation: none } }
    @media (prefers-color-scheme: dark) {
      .w { fill: #0d1117; stroke: #30363d } text { fill: #e6edf3 }
      .c { fill: #4493f8 } .g { fill: #3fb950 } .r { fill: #f85149 }
    }
  </style>
  <rect class="w" x="0.5" y="0.5" width="${width - 1}" height="${y - 1}" rx="8" />
  <circle cx="20" cy="18" r="5" fill="#ff5f57" /><circle cx="38" cy="18" r="5" fill="#febc2e" /><circle cx="56" cy="18" r="5" fill="#28c840" />
${lines.join('\n')}
</svg>
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(RECORDING, draw(await record()));
