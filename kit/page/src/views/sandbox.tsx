import './sandbox.css';
import type { ComponentChildren } from 'preact';
import { MAX_MOVEMENTS, type ServiceReport } from '../../../src/inspector/api.js';
import { staleFor } from '../live';
import { useLoaded } from '../load';
import { Plain } from '../plain';
import { ask, can } from '../server';
import { Time } from '../time';
import { Clock } from './sandbox-clock';
import { FaultPanel } from './sandbox-faults';
import { Fire } from './sandbox-fire';
import { AddEndpoint, Move, type Reloads, RemoveEndpoint } from './sandbox-forms';

export function SandboxView() {
  const { data, error, reload } = useLoaded<ServiceReport>(
    'sandbox',
    (signal) => ask('sandbox', {}, signal),
    staleFor('sandbox'),
  );
  if (data === undefined) {
    return (
      <>
        <h2 class="unseen">Sandbox</h2>
        <p class="empty">
          <Plain text={error ?? 'Loading …'} />
        </p>
      </>
    );
  }
  const { movements, endpoints, faults, clock, examples } = data;
  return (
    <>
      <h2 class="unseen">Sandbox</h2>
      {error !== undefined && (
        <p class="bad">
          <Plain text={error} />
        </p>
      )}
      <div class="service">
        <div class="service-actions">
          <Clock clock={clock} reload={reload} />
          {can('fire') && <Fire examples={examples} />}
        </div>
        <FaultPanel faults={faults} reload={reload} />
      </div>
      <Movements movements={movements} reload={reload} />
      <Endpoints endpoints={endpoints} reload={reload} />
    </>
  );
}

/** These attributes let people scroll a region with the keyboard. */
const SCROLLED_BY_KEYBOARD = { tabIndex: 0 };

function Listing({
  title,
  action,
  columns,
  empty,
  max,
  children,
}: {
  readonly title: string;
  readonly max?: number;
  readonly action: ComponentChildren;
  /** A heading that begins with `#` is for a column of numbers. */
  readonly columns: readonly string[];
  readonly empty: ComponentChildren;
  readonly children: readonly ComponentChildren[];
}) {
  return (
    <section class="listing" aria-label={title}>
      <div class="listing-head">
        <h3>
          {title}{' '}
          {children.length > 0 && (
            <span class="faint">{children.length === max ? `the newest ${max}` : children.length}</span>
          )}
        </h3>
        {action}
      </div>
      {children.length === 0 ? (
        <p class="faint">{empty}</p>
      ) : (
        <section class="scroll" aria-label={`${title}, table`} {...SCROLLED_BY_KEYBOARD}>
          <table>
            <thead>
              <tr>
                {columns.map((column) =>
                  column === '' ? (
                    <td key={column} />
                  ) : (
                    <th key={column} scope="col" class={column.startsWith('#') ? 'number' : undefined}>
                      {column.replace('#', '')}
                    </th>
                  ),
                )}
              </tr>
            </thead>
            <tbody>{children}</tbody>
          </table>
        </section>
      )}
    </section>
  );
}

const STATE_CLASSES = {
  pending: 'doubtful',
  confirmed: 'good',
  settled: 'good',
  completed: 'good',
  failed: 'bad',
} as const;

function Movements({ movements, reload }: Pick<ServiceReport, 'movements'> & Reloads) {
  return (
    <Listing
      title="Movements"
      max={MAX_MOVEMENTS}
      action={can('move') && <Move reload={reload} />}
      columns={['Started', 'Kind', 'State', '#Amount', 'Chain', 'From', 'To', 'Id']}
      empty={<>There are no movements yet. A movement fires an event when it ends.</>}
    >
      {movements.map(({ id, kind, state, reason, amount, chain, walletId, from, to, createdAt }) => (
        <tr key={id}>
          <td data-label="Started">
            <Time at={createdAt} />
          </td>
          <td data-label="Kind">
            <Plain text={kind} />
          </td>
          <td data-label="State" class={STATE_CLASSES[state]}>
            <Plain text={reason === null ? state : `${state}: ${reason}`} />
          </td>
          <td data-label="Amount" class="number">
            {amount}
          </td>
          <td data-label="Chain">
            <Plain text={chain} />
          </td>
          <td data-label="From" class="mono">
            <Plain text={walletId !== null && kind !== 'accept' ? walletId : from} />
          </td>
          <td data-label="To" class="mono">
            <Plain text={walletId !== null && kind === 'accept' ? walletId : to} />
          </td>
          <td data-label="Id" class="mono">
            <Plain text={id} />
          </td>
        </tr>
      ))}
    </Listing>
  );
}

function Endpoints({ endpoints, reload }: Pick<ServiceReport, 'endpoints'> & Reloads) {
  return (
    <Listing
      title="Endpoints"
      action={can('add-endpoint') && <AddEndpoint reload={reload} />}
      columns={['URL', 'Signature header', 'Encoding', 'Id', '']}
      empty={
        <>
          There are no endpoints, so no event is delivered. Add one, or start the sandbox with{' '}
          <code>--to &lt;url&gt;</code>.
        </>
      }
    >
      {endpoints.map(({ id, url, encoding, signatureHeader }) => (
        <tr key={id}>
          <td data-label="URL" class="mono">
            <Plain text={url} />
          </td>
          <td data-label="Signature header" class="mono">
            <Plain text={signatureHeader} />
          </td>
          <td data-label="Encoding">{encoding}</td>
          <td data-label="Id" class="mono">
            <Plain text={id} />
          </td>
          <td class="act">
            {can('remove-endpoint') && <RemoveEndpoint endpoint={{ id, url }} reload={reload} />}
          </td>
        </tr>
      ))}
    </Listing>
  );
}
