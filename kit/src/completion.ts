/** Completion with Tab: the scripts for the shells, and the suggestions for the scripts. */
import type { Command, Option } from 'commander';

/**
 * The scripts pass the typed words on as arguments and never evaluate them, because `$(…)` in a half-typed word must not
 * run. They need only the shell.
 */
const SCRIPTS = {
  bash: `_stablehooks() {
  local IFS=$'\n'
  COMPREPLY=($(stablehooks complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _stablehooks stablehooks
`,
  zsh: `_stablehooks() {
  local -a suggestions
  suggestions=("\${(@f)$(stablehooks complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n "$suggestions" ]] && compadd -- "\${suggestions[@]}" || _files
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _stablehooks stablehooks
`,
  fish: `complete -c stablehooks -a '(stablehooks complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
} as const;

type Shell = keyof typeof SCRIPTS;

export const SHELLS = Object.keys(SCRIPTS) as readonly Shell[];

export function completionScript(shell: Shell): string {
  return SCRIPTS[shell];
}

/** Candidates for the last of the typed words: commands, flags, or the values of a flag or argument. */
export function suggest(program: Command, words: readonly string[]): readonly string[] {
  const typed = words.slice(0, -1);
  const current = words.at(-1) ?? '';
  let command = program;
  let place = 0;
  let flag: Option | undefined;
  for (const word of typed) {
    const child = flag === undefined ? command.commands.find((each) => each.name() === word) : undefined;
    if (child !== undefined) [command, place] = [child, 0];
    else if (flag === undefined && !word.startsWith('-')) place += 1;
    const option = command.options.find(({ short, long }) => word === short || word === long);
    flag = flag === undefined && (option?.required || option?.optional) ? option : undefined;
  }
  const values = flag ?? command.registeredArguments[place];
  const names = command.commands.map((each) => each.name());
  const flags = command.options.flatMap(({ long, hidden }) => (long === undefined || hidden ? [] : [long]));
  const all =
    flag === undefined && current.startsWith('-')
      ? flags
      : [...(values?.argChoices ?? []), ...(flag ? [] : names)];
  return all.filter((each) => each.startsWith(current));
}
