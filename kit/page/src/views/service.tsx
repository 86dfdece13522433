import './service.css';
import type { ComponentChildren } from 'preact';
import type { ServiceReport } from '../../../src/inspector/api.js';
import { staleFor } from '../live';
import { useLoaded } from '../load';
import { Plain, toPlain } from '../plain';
import { ask, can } from '../server';
import { toUtc } from '../time';
import { Clock } from './service-clock';
import { FaultPanel } from './service-faults';
import { Fire } from './service-fire';

/** The sandbox's world: what it holds, what goes wrong in it, and what time it is there. */
export function ServiceView() {
  const { data, error, reload } = useLoaded<ServiceReport>(
    'service',
    (signal) => ask('service', {}, signal),
    staleFor('service'),
  );
  if (data === undefined) {
    return (
      <>
        <h2>Service</h2>
        <p class="empty">
          <Plain text={error ?? 'Loading …'} />
        </p>
      </>
    );
  }
  const { wallets, movements, endpoints, faults, clock, examples } = data;
  return (
    <>
      <h2>Service</h2>
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
      <Wallets wallets={wallets} today={clock.now.slice(0, 10)} />
      <Movements movements={movements} />
      <Endpoints endpoints={endpoints} />
    </>
  );
}

/** What scrolls can be reached, although it cannot be used. */
const SCROLLED_BY_KEYBOARD = { tabIndex: 0 };

/** A table with a heading, or what to do when it has no row. */
function Listing({
  title,
  columns,
  empty,
  children,
}: {
  readonly title: string;
  /** The headings; a `#` before one aligns numbers. */
  readonly columns: readonly string[];
  readonly empty: ComponentChildren;
  readonly children: readonly ComponentChildren[];
}) {
  return (
    <section class="listing" aria-label={title}>
      <h3>
        {title} {children.length > 0 && <span class="faint">{children.length}</span>}
      </h3>
      {children.length === 0 ? (
        <p class="faint">{empty}</p>
      ) : (
        <section class="scroll" aria-label={`${title}, table`} {...SCROLLED_BY_KEYBOARD}>
          <table>
            <thead>
              <tr>
                {columns.map((column) => (
                  <th key={column} scope="col" class={column.startsWith('#') ? 'number' : undefined}>
                    {column.replace('#', '')}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>{children}</tbody>
          </table>
        </section>
      )}
    </section>
  );
}

function Wallets({ wallets, today }: { readonly wallets: ServiceReport['wallets']; readonly today: string }) {
  return (
    <Listing
      title="Wallets"
      columns={['Wallet', 'Agent', 'Chain', '#Balance', '#Limit per send', 'Spent today', 'Can send to']}
      empty={
        <>
          No wallet yet. <code>stablehooks wallets create</code> creates one.
        </>
      }
    >
      {wallets.map(({ id, label, agentId, chain, address, balance, limits, allowlist, day, spentToday }) => {
        const spent = day === today ? spentToday : '0';
        return (
          <tr key={id}>
            <td>
              {label !== null && (
                <>
                  <Plain text={label} />
                  <br />
                </>
              )}
              <span class="mono">
                <Plain text={id} />
              </span>
            </td>
            <td>
              <Plain text={agentId} />
            </td>
            <td title={toPlain(address)}>
              <Plain text={chain} />
            </td>
            <td class="number">{balance}</td>
            <td class="number">{limits.perTx}</td>
            <td>
              <Spent spent={spent} daily={limits.daily} />
            </td>
            <td>{allowlist.length === 0 ? <span class="faint">nobody</span> : <Targets of={allowlist} />}</td>
          </tr>
        );
      })}
    </Listing>
  );
}

function Spent({ spent, daily }: { readonly spent: string; readonly daily: string }) {
  // As numbers for the length of the bar only: amounts are decimal strings.
  const part = Number(daily) === 0 ? 0 : Number(spent) / Number(daily);
  return (
    <span class="spent">
      <span>
        {spent} of {daily}
      </span>
      <meter
        aria-label="Spent today, of the daily limit"
        min={0}
        max={1}
        high={0.8}
        optimum={0}
        value={part}
      />
    </span>
  );
}

function Targets({ of }: { readonly of: readonly string[] }) {
  return (
    <ul class="targets mono">
      {of.map((target) => (
        <li key={target}>
          <Plain text={target} />
        </li>
      ))}
    </ul>
  );
}

const STATE_CLASSES = {
  pending: 'doubtful',
  confirmed: 'good',
  settled: 'good',
  completed: 'good',
  failed: 'bad',
} as const;

function Movements({ movements }: { readonly movements: ServiceReport['movements'] }) {
  return (
    <Listing
      title="Movements"
      columns={['Begun (UTC)', 'Kind', 'State', '#Amount', 'Chain', 'From', 'To', 'Id']}
      empty={
        <>
          No movement yet. <code>POST /sandbox/accepts</code>, <code>POST /sandbox/transfers</code> and{' '}
          <code>POST /sandbox/redemptions</code> begin one.
        </>
      }
    >
      {movements.map(({ id, kind, state, reason, amount, chain, walletId, from, to, createdAt }) => (
        <tr key={id}>
          <td class="time">{toUtc(createdAt)}</td>
          <td>
            <Plain text={kind} />
          </td>
          <td class={STATE_CLASSES[state]}>
            <Plain text={reason === null ? state : `${state}: ${reason}`} />
          </td>
          <td class="number">{amount}</td>
          <td>
            <Plain text={chain} />
          </td>
          <td class="mono">
            <Plain text={walletId !== null && kind !== 'accept' ? walletId : from} />
          </td>
          <td class="mono">
            <Plain text={walletId !== null && kind === 'accept' ? walletId : to} />
          </td>
          <td class="mono">
            <Plain text={id} />
          </td>
        </tr>
      ))}
    </Listing>
  );
}

function Endpoints({ endpoints }: { readonly endpoints: ServiceReport['endpoints'] }) {
  return (
    <Listing
      title="Endpoints"
      columns={['URL', 'Header of the signature', 'Encoding', 'Id']}
      empty={
        <>
          No endpoint: nothing is delivered. Start the sandbox with <code>--to &lt;url&gt;</code>.
        </>
      }
    >
      {endpoints.map(({ id, url, encoding, signatureHeader }) => (
        <tr key={id}>
          <td class="mono">
            <Plain text={url} />
          </td>
          <td class="mono">
            <Plain text={signatureHeader} />
          </td>
          <td>{encoding}</td>
          <td class="mono">
            <Plain text={id} />
          </td>
        </tr>
      ))}
    </Listing>
  );
}
