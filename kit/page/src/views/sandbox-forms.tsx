import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { ActionInputs, ServiceReport } from '../../../src/inspector/api.js';
import { Dialog } from '../dialog';
import { attempt } from '../notice';
import { act } from '../server';

const CHAINS = ['base', 'solana', 'tempo'] as const;
const AMOUNT = {
  pattern: '\\d+(\\.\\d+)?',
  title: 'A decimal amount, such as 25.00',
  inputMode: 'decimal',
} as const;

/** A button that opens a form. The notice says what the sandbox did, or why it refused. */
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
  /** Resolves to what the notice says. */
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
  readonly required?: boolean;
}) {
  return (
    <label>
      {label}
      <input required {...rest} value={value} onInput={({ currentTarget }) => set(currentTarget.value)} />
    </label>
  );
}

function Choice({
  label,
  value,
  options,
  set,
}: {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, title: string])[];
  readonly set: (value: string) => void;
}) {
  return (
    <label>
      {label}
      <select value={value} onChange={({ currentTarget }) => set(currentTarget.value)}>
        {options.map(([each, title]) => (
          <option key={each} value={each}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

const toList = (text: string) => text.split(/[\s,]+/).filter((target) => target !== '');

interface Reloads {
  readonly reload: () => void;
}

export function CreateWallet({ reload }: Reloads) {
  return (
    <Form
      label="Create a wallet …"
      title="Create a wallet"
      submit="Create"
      initial={{ agentId: 'agent-1', chain: 'base', perTx: '50.00', daily: '100.00', allowlist: '' }}
      reload={reload}
      run={async ({ agentId, chain, perTx, daily, allowlist }) => {
        const input = { agentId, chain, limits: { perTx, daily }, allowlist: toList(allowlist) };
        const { id } = await act('create-wallet', input as ActionInputs['create-wallet']);
        return `Created the wallet ${id}.`;
      }}
    >
      {({ agentId, chain, ...limits }, set) => (
        <>
          <Field label="Agent" value={agentId} set={(value) => set({ agentId: value })} />
          <Choice
            label="Chain"
            value={chain}
            options={CHAINS.map((each) => [each, each])}
            set={(value) => set({ chain: value })}
          />
          <LimitFields {...limits} set={set} />
        </>
      )}
    </Form>
  );
}

function LimitFields({
  perTx,
  daily,
  allowlist,
  set,
}: {
  readonly perTx: string;
  readonly daily: string;
  readonly allowlist: string;
  readonly set: (change: { perTx?: string; daily?: string; allowlist?: string }) => void;
}) {
  return (
    <>
      <Field {...AMOUNT} label="Limit per send (USDC)" value={perTx} set={(value) => set({ perTx: value })} />
      <Field
        {...AMOUNT}
        label="Limit per day, UTC (USDC)"
        value={daily}
        set={(value) => set({ daily: value })}
      />
      <Field
        label="Allowed targets, separated by spaces"
        required={false}
        value={allowlist}
        set={(value) => set({ allowlist: value })}
      />
    </>
  );
}

export function SetLimits({
  wallet: { id, limits, allowlist },
  reload,
}: Reloads & { readonly wallet: Pick<ServiceReport['wallets'][number], 'id' | 'limits' | 'allowlist'> }) {
  return (
    <Form
      label="Limits …"
      title={`Limits of ${id}`}
      submit="Set"
      initial={{ ...limits, allowlist: allowlist.join(' ') }}
      reload={reload}
      run={async ({ perTx, daily, allowlist: targets }) => {
        await act('set-limits', { id, limits: { perTx, daily }, allowlist: toList(targets) });
        return `The limits of ${id} are ${perTx} per send and ${daily} per day.`;
      }}
    >
      {(values, set) => <LimitFields {...values} set={set} />}
    </Form>
  );
}

const KINDS = [
  ['accept', 'accept: a deposit arrives'],
  ['transfer', 'transfer: the institution sends'],
  ['redeem', 'redeem: paid out to a bank'],
  ['send', 'send: out of a wallet, within its limits'],
] as const;

export function Move({ wallets, reload }: Reloads & Pick<ServiceReport, 'wallets'>) {
  const [first] = wallets;
  return (
    <Form
      label="Begin a movement …"
      title="Begin a movement"
      submit="Begin"
      initial={{ kind: 'accept', amount: '25.00', walletId: first?.id ?? '', to: first?.allowlist[0] ?? '' }}
      reload={reload}
      run={async ({ kind, amount, walletId, to }) => {
        const input = kind === 'send' ? { kind, amount, walletId, to } : { kind, amount };
        const { id } = await act('move', input as ActionInputs['move']);
        return `Begun: ${kind} of ${amount} as ${id}.`;
      }}
    >
      {({ kind, amount, walletId, to }, set) => (
        <>
          <Choice
            label="Kind"
            value={kind}
            options={KINDS.filter(([each]) => each !== 'send' || wallets.length > 0)}
            set={(value) => set({ kind: value })}
          />
          <Field {...AMOUNT} label="Amount (USDC)" value={amount} set={(value) => set({ amount: value })} />
          {kind === 'send' && (
            <>
              <Choice
                label="Wallet"
                value={walletId}
                options={wallets.map(({ id, label }) => [id, label ?? id])}
                set={(value) => set({ walletId: value })}
              />
              <Field label="To" value={to} set={(value) => set({ to: value })} />
            </>
          )}
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
        return `Later events are delivered to ${url} as well.`;
      }}
    >
      {({ url }, set) => (
        <>
          <p>Its deliveries are signed with the secret of the sandbox.</p>
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
      {() => <p class="wrap">No event is delivered to {url} any more, and its pending deliveries end.</p>}
    </Form>
  );
}
