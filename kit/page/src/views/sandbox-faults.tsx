import { useId, useRef, useState } from 'preact/hooks';
import type { Chance, Faults, FaultsInput } from '../../../src/sandbox/index.js';
import { DURATION_HINT, formatDuration, parseDuration } from '../duration';
import { attempt, tellReader } from '../notice';
import { act, can } from '../server';
import type { Reloads } from './sandbox-forms';

type FaultName = keyof Faults;
type Control = 'chance' | 'duration' | 'signed-duration' | 'expiry' | 'order' | 'cap' | 'switch';

interface Fault {
  readonly title: string;
  readonly meaning: string;
  readonly control: Control;
  /** The value that turns the fault off. Omitted for a setting that does not cause a fault by itself. */
  readonly none?: Faults[FaultName];
}

const chance = (title: string, meaning: string): Fault => ({ title, meaning, control: 'chance', none: 0 });
const length = (title: string, meaning: string): Fault => ({ title, meaning, control: 'duration' });

const GROUPS = {
  Deliveries: {
    drop: chance('Drop', 'An attempt never arrives. The service sees a failure and retries.'),
    duplicate: chance('Duplicate', 'An attempt arrives twice at the same time.'),
    reorder: chance(
      'Reorder',
      'The first attempt of an event is held back, so later events arrive before it.',
    ),
    reorderMs: length('Reorder: at most', 'The maximum time that a reordered attempt waits.'),
    delay: chance('Delay', 'The first attempt of an event waits.'),
    delayMs: length('Delay: for', 'How long a delayed attempt waits.'),
    corruptSignature: chance(
      'Corrupt the signature',
      'An attempt has a well-formed signature that does not match the body.',
    ),
    reserialise: chance(
      'Serialize again',
      'After the body is signed, it is parsed and serialized again with different white space.',
    ),
    cut: chance('Cut', 'The connection is cut halfway through the body.'),
    reset: chance('Reset', 'An attempt arrives, but its connection is reset before the response.'),
  },
  'Service API': {
    apiTooManyRequests: chance('429', 'A request gets a 429 and changes nothing.'),
    apiRetryAfterMs: length(
      '429: Retry-After',
      'How long a 429 tells the client to wait, rounded up to seconds.',
    ),
    apiServerError: chance('500', 'A request gets a 500 and changes nothing.'),
    apiSlow: chance('Slow', 'A request gets a late response.'),
    apiSlowMs: length('Slow: by', 'How long a slow response is delayed.'),
    apiMalformed: chance(
      'Malformed',
      'A request takes effect, but half of the JSON in its response is missing.',
    ),
    apiReset: chance(
      'Connection reset',
      'A request takes effect, but its connection is reset before the response.',
    ),
    dateSkewMs: {
      ...{ title: 'Wrong date', control: 'signed-duration', none: 0 },
      meaning: 'How far the Date header is off. A negative duration is in the past.',
    },
    tokenExpiryMs: {
      ...{ title: 'Token expires after', control: 'expiry', none: null },
      meaning: 'How long the token is valid. Leave empty for no expiry.',
    },
  },
  'Event list': {
    listOrder: {
      ...{ title: 'Order', control: 'order', none: 'newest' },
      meaning: 'The order of the events in the list. A limit cuts off the end of the list.',
    },
    listCap: {
      ...{ title: 'Cap', control: 'cap', none: null },
      meaning:
        'The maximum number of events in the list, even if the limit of a request is higher. Leave empty for no cap.',
    },
    listFilterAfterCap: {
      ...{ title: 'Filter after the cap', control: 'switch', none: false },
      meaning: 'A query by type is truncated to its limit before it is filtered, which leaves out events.',
    },
    listLagMs: {
      ...{ title: 'Lag', control: 'duration', none: 0 },
      meaning: 'How long it takes for a new event to appear in the list.',
    },
    listDuplicate: chance('List twice', 'An event is listed twice, but the list does not get longer.'),
    listWrongDelivered: chance('Wrong flag', 'The “delivered” flag of an event is wrong.'),
  },
} satisfies Readonly<Record<string, Partial<Record<FaultName, Fault>>>>;
const FAULTS: Readonly<Record<FaultName, Fault>> = {
  ...GROUPS.Deliveries,
  ...GROUPS['Service API'],
  ...GROUPS['Event list'],
};
const NAMES = Object.keys(FAULTS) as FaultName[];

export function FaultPanel({ faults, reload }: { readonly faults: Faults } & Reloads) {
  const { shown, change, clear } = useFaults(faults, reload);
  const active = NAMES.filter((name) => isActive(name, shown)).length;
  return (
    <section class="faults" aria-labelledby="faults-title">
      <div class="faults-head">
        <h3 id="faults-title">
          Faults{' '}
          <span class={active === 0 ? 'faint' : 'doubtful'}>
            {active === 0 ? 'none' : `${active} active`}
          </span>
        </h3>
        {can('clear-faults') && (
          <button type="button" disabled={active === 0} onClick={clear}>
            Clear all
          </button>
        )}
      </div>
      {!can('set-faults') && <p class="faint">This inspector does not allow you to change faults.</p>}
      <div class="fault-groups">
        {Object.entries(GROUPS).map(([group, members]) => (
          <fieldset key={group} disabled={!can('set-faults')}>
            <legend>{group}</legend>
            {(Object.keys(members) as FaultName[]).map((name) => (
              <FaultRow
                key={name}
                name={name}
                faults={shown}
                change={(value) => change({ [name]: value } as FaultsInput)}
              />
            ))}
          </fieldset>
        ))}
      </div>
    </section>
  );
}

/** Sends changes one at a time, so that they arrive in order. */
function useFaults(faults: Faults, reload: () => void) {
  const [unanswered, setUnanswered] = useState<FaultsInput>({});
  const [answer, setAnswer] = useState<{ readonly faults: Faults; readonly to: Faults }>();
  const latest = useRef(faults);
  latest.current = faults;
  const waiting = useRef<FaultsInput | undefined>(undefined);
  const isSending = useRef(false);

  async function run(work: () => Promise<Faults>, say: (after: Faults) => string): Promise<void> {
    const after = await attempt(work, say);
    if (after !== undefined) setAnswer({ faults: after, to: latest.current });
  }

  async function change(part: FaultsInput): Promise<void> {
    waiting.current = { ...waiting.current, ...part };
    setUnanswered((before) => ({ ...before, ...part }));
    if (isSending.current) return;
    isSending.current = true;
    while (waiting.current !== undefined) {
      const next: FaultsInput = waiting.current;
      waiting.current = undefined;
      await run(
        () => act('set-faults', next),
        (after) => describe(next, after),
      );
    }
    isSending.current = false;
    setUnanswered({});
    reload();
  }

  async function clear(): Promise<void> {
    await run(
      () => act('clear-faults', {}),
      () => 'All faults are cleared.',
    );
    reload();
  }

  const known = answer?.to === faults ? answer.faults : faults;
  return { shown: { ...known, ...unanswered } as Faults, change, clear };
}

function describe(sent: FaultsInput, after: Faults): string {
  const names = Object.keys(sent) as FaultName[];
  return `${names.map((name) => `${FAULTS[name].title}: ${inWords(name, after)}`).join('. ')}.`;
}

function inWords(name: FaultName, faults: Faults): string {
  const value = faults[name];
  if (value === null) return 'none';
  if (typeof value === 'object') return `the next ${value.next} times`;
  if (FAULTS[name].control === 'chance') return `${Number((Number(value) * 100).toFixed(2))} %`;
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  return name.endsWith('Ms') ? formatDuration(Number(value)) : `${value}`;
}

function isActive(name: FaultName, faults: Faults): boolean {
  const value = faults[name];
  const { none } = FAULTS[name];
  if (typeof value === 'object' && value !== null) return value.next > 0;
  return none !== undefined && value !== none;
}

interface OneFault {
  readonly name: FaultName;
  readonly faults: Faults;
  readonly change: (value: Faults[FaultName]) => void;
}

function FaultRow({ name, faults, change }: OneFault) {
  const { title, meaning, none } = FAULTS[name];
  const id = useId();
  const classes = [
    'fault',
    isActive(name, faults) ? 'fault-active' : '',
    none === undefined ? 'fault-part' : '',
  ];
  return (
    // People who set the fault in the API need the name of the option.
    <div class={classes.join(' ')} title={name}>
      <div>
        <span class="fault-title">{title}</span>
        <span id={id} class="faint fault-meaning">
          {meaning}
        </span>
      </div>
      <div class="fault-control">
        <FaultControl name={name} faults={faults} change={change} describedBy={id} />
      </div>
    </div>
  );
}

function FaultControl({ name, faults, change, describedBy }: OneFault & { readonly describedBy: string }) {
  const { title, control } = FAULTS[name];
  const value = faults[name];
  const labels = { 'aria-label': title, 'aria-describedby': describedBy };
  switch (control) {
    case 'chance':
      return (
        <ChanceControl title={title} describedBy={describedBy} value={value as Chance} change={change} />
      );
    case 'switch':
      return (
        <input
          {...labels}
          type="checkbox"
          role="switch"
          checked={value === true}
          aria-checked={value === true}
          onChange={({ currentTarget }) => change(currentTarget.checked)}
        />
      );
    case 'order':
      return (
        <select
          {...labels}
          value={`${value}`}
          onChange={({ currentTarget }) => change(currentTarget.value as Faults['listOrder'])}
        >
          <option>newest</option>
          <option>oldest</option>
          <option>shuffled</option>
        </select>
      );
    case 'cap':
      return (
        <Typed
          {...labels}
          placeholder="no cap"
          value={value === null ? '' : `${value}`}
          read={(text) => (text === '' ? null : /^[1-9]\d{0,8}$/.test(text) ? Number(text) : undefined)}
          hint="Enter a whole number of 1 or more, or leave it empty for no cap."
          change={change}
        />
      );
    default:
      return (
        <Typed
          {...labels}
          placeholder={control === 'expiry' ? 'never' : ''}
          value={value === null ? '' : formatDuration(Number(value))}
          read={(text) => {
            if (text === '' && control === 'expiry') return null;
            const ms = parseDuration(text);
            return ms !== undefined && (ms >= 0 || control === 'signed-duration') ? ms : undefined;
          }}
          hint={DURATION_HINT}
          change={change}
        />
      );
  }
}

function ChanceControl({
  title,
  describedBy,
  value,
  change,
}: {
  readonly title: string;
  readonly describedBy: string;
  readonly value: Chance;
  readonly change: (value: Chance) => void;
}) {
  const [sliding, setSliding] = useState<number>();
  const mode = (
    <select
      aria-label={`${title}: how often`}
      value={typeof value === 'number' ? 'chance' : 'next'}
      onChange={({ currentTarget }) => change(currentTarget.value === 'next' ? { next: 1 } : 0)}
    >
      <option value="chance">by chance</option>
      <option value="next">the next times</option>
    </select>
  );
  if (typeof value === 'object') {
    return (
      <>
        {mode}
        <Typed
          aria-label={`${title}: the next times`}
          aria-describedby={describedBy}
          value={`${value.next}`}
          read={(text) => (/^\d{1,9}$/.test(text) ? { next: Number(text) } : undefined)}
          hint="Enter a whole number of 0 or more."
          change={change}
        />
      </>
    );
  }
  return (
    <>
      {mode}
      <input
        type="range"
        aria-label={`${title}: chance, slider`}
        aria-describedby={describedBy}
        min={0}
        max={1}
        step={0.01}
        value={sliding ?? value}
        onInput={({ currentTarget }) => setSliding(currentTarget.valueAsNumber)}
        onChange={({ currentTarget }) => {
          setSliding(undefined);
          change(currentTarget.valueAsNumber);
        }}
      />
      <Typed
        aria-label={`${title}: chance`}
        aria-describedby={describedBy}
        value={`${sliding ?? value}`}
        read={(text) => {
          const number = text === '' ? Number.NaN : Number(text);
          return number >= 0 && number <= 1 ? number : undefined;
        }}
        hint="Enter a number from 0 to 1, such as 0.25."
        change={change}
      />
    </>
  );
}

/** The value takes effect on Enter or when the field loses the focus, and nothing replaces it until then. */
function Typed<Value>({
  value,
  read,
  hint,
  change,
  ...rest
}: {
  readonly value: string;
  readonly read: (text: string) => Value | undefined;
  readonly hint: string;
  readonly change: (value: Value) => void;
  readonly 'aria-label': string;
  readonly 'aria-describedby': string;
  readonly placeholder?: string;
}) {
  const [text, setText] = useState<string>();
  function enter(): void {
    if (text === undefined) return;
    const typed = read(text.trim());
    if (typed === undefined) {
      tellReader(`Nothing was changed. ${hint}`, true);
      return;
    }
    setText(undefined);
    if (text.trim() !== value) change(typed);
  }
  return (
    <input
      {...rest}
      class="typed"
      autocomplete="off"
      value={text ?? value}
      aria-invalid={text !== undefined && read(text.trim()) === undefined}
      onInput={({ currentTarget }) => setText(currentTarget.value)}
      onBlur={enter}
      onKeyDown={({ key }) => {
        if (key === 'Enter') enter();
        if (key === 'Escape') setText(undefined);
      }}
    />
  );
}
