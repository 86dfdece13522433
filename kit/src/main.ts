#!/usr/bin/env node
/** `stablehooks`, the command: parses, runs, and turns whatever happens into one line and an exit code. */
import { writeSync } from 'node:fs';
import { type Command, CommanderError } from 'commander';
import { EXIT } from './exit.js';
import { toFailure } from './failure.js';
import { interruptedExit, interruption, isInterruption, watchInterruption } from './interruption.js';
import { createProgram, toUsageLine } from './program.js';

const words = process.argv.slice(2);
// Node's own warnings (node:sqlite is experimental) are not for operators.
if (!words.includes('--debug')) process.removeAllListeners('warning');
watchInterruption();
const program = await createProgram(words);
try {
  await program.parseAsync();
} catch (error) {
  fail(error);
}
reportLostOutput();

function fail(error: unknown): void {
  // Help and the version come as errors, too: they are printed by then.
  if (error instanceof CommanderError && error.exitCode === 0) return;
  if (isInterruption(error)) {
    process.exitCode = interruptedExit();
    return;
  }
  const { exitCode, message } = toFailure(error);
  const line =
    error instanceof CommanderError ? toUsageLine(error, { command: commandLine(program) }) : message;
  process.exitCode = exitCode;
  process.stderr.write(`stablehooks: ${line}\n`);
  // Commander's errors quote what was typed, secrets included; their stacks tell nothing more.
  if (words.includes('--debug') && !(error instanceof CommanderError)) console.error(error);
}

/** The names of the command that was typed, as far as there are such commands. */
function commandLine(root: Command): string {
  const names = [root.name()];
  let command: Command | undefined = root;
  for (const word of words) {
    command = command.commands.find((child) => child.name() === word);
    if (command === undefined) break;
    names.push(command.name());
  }
  return names.join(' ');
}

/** A command may have ended well while the disk took none of its output. */
function reportLostOutput(): void {
  process.on('exit', () => {
    const { reason } = interruption;
    if (!interruption.aborted || interruptedExit() !== EXIT.unreachable) return;
    process.exitCode = EXIT.unreachable;
    writeSync(process.stderr.fd, `stablehooks: ${toFailure(reason).message}\n`);
  });
}
