import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { ActionInputs } from '../../../src/inspector/api.js';
import { Dialog } from '../dialog';
import { attempt } from '../notice';
import { act } from '../server';

const AMOUNT = {
  pattern: '\\d+(\\.\\d+)?',
  title: 'A decimal amount, such as 25.00',
  inputMode: 'decimal',
} as const;

function Form<Values extends Readonly<Record<string, string>>>({
  label,
  title,
  submit,
  initial,
  reload,
  run,
  children,
}: {
  readonly label: string;
  readonly title: string;
  readonly submit: string;
  readonly initial: Values;
  readonly reload: () => void;
  readonly run: (values: Values) => Promise<string>;
  readonly children: (values: Values, set: (change: Partial<Values>) => void) => ComponentChildren;
}) {
  const [values, setValues] = useState<Values>();
  async function send(given: Values): Promise<void> {
    setValues(undefined);
    await attempt(
      () => run(given),
      (text) => text,
    );
    reload();
  }
  return (
    <>
      <button type="button" onClick={() => setValues(initial)}>
        {label}
      </button>
      {values !== undefined && (
        <Dialog
          title={title}
          submit={submit}
          onSubmit={() => send(values)}
          onClose={() => setValues(undefined)}
        >
          {children(values, (change) => setValues({ ...values, ...change }))}
        </Dialog>
      )}
    </>
  );
}

function Field({
  label,
  value,
  set,
  ...rest
}: {
  readonly label: string;
  readonly value: string;
  readonly set: (value: string) => void;
  readonly pattern?: string;
  readonly title?: string;
  readonly inputMode?: 'decimal';
}) {
  return (
    <label>
      {label}
      <input required {...rest} value={value} onInput={({ currentTarget }) => set(currentTarget.value)} />
    </label>
  );
}

export interface Reloads {
  readonly reload: () => void;
}

const KINDS = [
  ['accept', 'accept: a deposit arrives'],
  ['transfer', 'transfer: the institution sends money'],
  ['redeem', 'redeem: money is paid out to a bank'],
] as const;

export function Move({ reload }: Reloads) {
  return (
    <Form
      label="Start a movement …"
      title="Start a movement"
      submit="Start"
      initial={{ kind: 'accept', amount: '25.00' }}
      reload={reload}
      run={async ({ kind, amount }) => {
        const { id } = await act('move', { kind, amount } as ActionInputs['move']);
        return `Started ${kind} of ${amount} as ${id}.`;
      }}
    >
      {({ kind, amount }, set) => (
        <>
          <label>
            Kind
            <select value={kind} onChange={({ currentTarget }) => set({ kind: currentTarget.value })}>
              {KINDS.map(([each, title]) => (
                <option key={each} value={each}>
                  {title}
                </option>
              ))}
            </select>
          </label>
          <Field {...AMOUNT} label="Amount (USDC)" value={amount} set={(value) => set({ amount: value })} />
        </>
      )}
    </Form>
  );
}

export function AddEndpoint({ reload }: Reloads) {
  return (
    <Form
      label="Add an endpoint …"
      title="Add an endpoint"
      submit="Add"
      initial={{ url: 'http://127.0.0.1:3000/hooks' }}
      reload={reload}
      run={async ({ url }) => {
        await act('add-endpoint', { url });
        return `Later events will also be delivered to ${url}.`;
      }}
    >
      {({ url }, set) => (
        <>
          <p>Deliveries to this endpoint are signed with the sandbox's secret.</p>
          <Field label="URL" pattern="https?://.*" value={url} set={(value) => set({ url: value })} />
        </>
      )}
    </Form>
  );
}

export function RemoveEndpoint({
  endpoint: { id, url },
  reload,
}: Reloads & { readonly endpoint: { readonly id: string; readonly url: string } }) {
  return (
    <Form
      label="Remove …"
      title="Remove the endpoint"
      submit="Remove"
      initial={{}}
      reload={reload}
      run={async () => {
        await act('remove-endpoint', { id });
        return `Removed ${url}. Its pending deliveries have ended.`;
      }}
    >
      {() => (
        <p class="wrap">No more events will be delivered to {url}, and its pending deliveries will end.</p>
      )}
    </Form>
  );
}
