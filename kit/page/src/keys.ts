import { useEffect, useRef } from 'preact/hooks';

/** Handles a key such as `j`, or two keys in a row such as `g e`, unless the reader is typing or a dialog is open. */
export function useKeys(keys: Readonly<Record<string, (event: KeyboardEvent) => void>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    let before = '';
    function onKeyDown(event: KeyboardEvent): void {
      const { target, key } = event;
      const isTyping =
        target instanceof Element && target.matches('input:not([type="checkbox"]), select, textarea');
      const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
      if (isTyping || hasModifier || event.defaultPrevented || document.querySelector('dialog[open]')) return;
      const run = latest.current[`${before} ${key}`] ?? latest.current[key];
      before = key === 'g' ? 'g' : '';
      if (run === undefined) return;
      event.preventDefault();
      run(event);
    }
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, []);
}

export const KEY_HELP: readonly (readonly [keys: string, meaning: string])[] = [
  ['g o', 'Overview'],
  ['g e', 'Events'],
  ['g c', 'Coverage'],
  ['g s', 'Sandbox'],
  ['/', 'Find an event or a movement by its id'],
  ['j, k', 'Next and previous event or attempt'],
  ['Enter', 'Open the event'],
  ['x', 'Select the event'],
  ['Esc', 'Back to the list'],
  ['z', 'Switch the time zone'],
  ['?', 'Show these keys'],
];
