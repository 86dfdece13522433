import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Session, View } from '../../src/inspector/api.js';
import { connection, follow, lost } from './live';
import { useLoaded } from './load';
import { forgetNotice, Notice } from './notice';
import { Plain, toPlain } from './plain';
import { ask, session } from './server';
import { Time } from './time';
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
  const { error, reload } = useLoaded('session', async (signal) => {
    const answer = await ask<Session>('session', {}, signal);
    // Before a view asks for anything: what happens from here on reaches it by the stream.
    follow(answer.position);
    session.value = answer;
  });
  useEffect(() => {
    // Removes the token from the address bar.
    go({}, { replace: true });
  }, []);

  const { name = '', views = [] } = session.value ?? {};
  const view = views.find((each) => each === param('view')) ?? views[0];
  const main = useRef<HTMLElement>(null);
  const shown = useRef(view);
  useEffect(() => {
    if (view === undefined) return;
    document.title = `${VIEWS[view].title} – ${toPlain(name)}`;
    if (shown.current !== undefined && shown.current !== view) {
      forgetNotice();
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    }
    shown.current = view;
  }, [view, name]);

  if (view === undefined) {
    return (
      <main class="empty">
        <p role="status">
          <Plain text={error ?? 'Loading …'} />
        </p>
        {error !== undefined && (
          <button type="button" onClick={reload}>
            Try again
          </button>
        )}
      </main>
    );
  }
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header>
        <h1>
          <Plain text={name} />
        </h1>
        <nav aria-label="Views">
          {views.map((each) => (
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
        {connection.value.open && <span class="live">Live</span>}
      </header>
      <Disconnected />
      <Lost name={name} />
      <main id="main" tabIndex={-1} ref={main}>
        {VIEWS[view].content()}
      </main>
      <Notice />
    </>
  );
}

/** Since when the page shows what was, and what to do. */
function Disconnected() {
  const { open, since, refused } = connection.value;
  return (
    <div role="alert">
      {!open && (
        <p class="banner">
          {refused === undefined ? 'The inspector does not answer.' : toPlain(refused)} The page shows what it
          knew at <Time at={since} />, and tries to connect again.
        </p>
      )}
    </div>
  );
}

/** Since when the source cannot be read, so that what the page shows is old. */
function Lost({ name }: { readonly name: string }) {
  const state = connection.value.open ? lost.value : undefined;
  return (
    <div role="alert">
      {state !== undefined && (
        <p class="banner">
          <Plain text={name} /> cannot be read since <Time at={state.since} />. <Plain text={state.why} /> The
          page shows what was read before, and goes on when it can be read.
        </p>
      )}
    </div>
  );
}
