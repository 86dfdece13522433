import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Session, View } from '../../src/inspector/api.js';
import { connection, follow } from './live';
import { useLoaded } from './load';
import { Notice } from './notice';
import { Plain } from './plain';
import { ask, session } from './server';
import { SourceState } from './source-state';
import { follow as followLink, go, hrefOf, param } from './url';
import { CoverageView } from './views/coverage';
import { DeliveriesView } from './views/deliveries';
import { InboxView } from './views/inbox';
import { ServiceView } from './views/service';

const VIEWS: Readonly<Record<View, { readonly title: string; readonly content: () => ComponentChildren }>> = {
  deliveries: { title: 'Deliveries', content: () => <DeliveriesView /> },
  inbox: { title: 'Inbox', content: () => <InboxView /> },
  coverage: { title: 'Coverage', content: () => <CoverageView /> },
  service: { title: 'Service', content: () => <ServiceView /> },
};

/** The page: a header with the views, and the view that the URL names. */
export function App() {
  const { data, error } = useLoaded('session', (signal) => ask<Session>('session', {}, signal));
  session.value = data;
  useEffect(() => {
    // Removes the token from the address bar.
    go({}, { replace: true });
    follow();
  }, []);
  if (data === undefined) return <main class="empty">{error ?? 'Loading …'}</main>;
  const view = data.views.find((each) => each === param('view')) ?? data.views[0] ?? 'deliveries';
  document.title = `${VIEWS[view].title} – ${data.name}`;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header>
        <h1>
          <Plain text={data.name} />
        </h1>
        <nav aria-label="Views">
          {data.views.map((each) => (
            <a
              key={each}
              href={hrefOf({ view: each })}
              aria-current={each === view ? 'page' : undefined}
              onClick={followLink}
            >
              {VIEWS[each].title}
            </a>
          ))}
        </nav>
      </header>
      {!connection.value.open && (
        <p class="banner" role="alert">
          The inspector has not answered since {new Date(connection.value.since).toLocaleTimeString()}. Trying
          again …
        </p>
      )}
      {connection.value.open && <SourceState name={data.name} />}
      <main id="main" tabIndex={-1}>
        {VIEWS[view].content()}
      </main>
      <Notice />
    </>
  );
}
