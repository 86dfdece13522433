import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Session, View } from '../../src/inspector/api.js';
import { Dialog } from './dialog';
import { KEY_HELP, useKeys } from './keys';
import { connection, follow, lost } from './live';
import { useLoaded } from './load';
import { forgetNotice, Notice } from './notice';
import { Plain, toPlain } from './plain';
import { ask, session } from './server';
import { switchZone, Time, zoneName } from './time';
import { follow as followLink, go, hrefOf, param, visit } from './url';
import { CoverageView } from './views/coverage';
import { EventView } from './views/event';
import { EventsView } from './views/events';
import { FoundView } from './views/movement';
import { OverviewView } from './views/overview';
import { SandboxView } from './views/sandbox';

const VIEWS: Readonly<Record<View, { readonly title: string; readonly content: () => ComponentChildren }>> = {
  overview: { title: 'Overview', content: () => <OverviewView /> },
  events: { title: 'Events', content: () => <Events /> },
  coverage: { title: 'Coverage', content: () => <CoverageView /> },
  sandbox: { title: 'Sandbox', content: () => <SandboxView /> },
};

function Events() {
  const [event, find] = [param('event'), param('find')];
  if (event !== undefined) return <EventView key={event} id={event} />;
  return find === undefined ? <EventsView /> : <FoundView key={find} what={find} />;
}

export function App() {
  const { error, reload } = useLoaded('session', async (signal) => {
    const answer = await ask<Session>('session', {}, signal);
    // This must come before a view requests anything, so that the stream reports all later changes to the view.
    follow(answer.position);
    session.value = answer;
  });
  useEffect(() => {
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
  const search = useRef<HTMLInputElement>(null);
  const [isHelping, setHelping] = useState(false);
  const goTo = (to: View) => () => {
    if (views.includes(to)) visit(hrefOf({ view: to }));
  };
  useKeys({
    ...{ 'g o': goTo('overview'), 'g e': goTo('events'), 'g c': goTo('coverage'), 'g s': goTo('sandbox') },
    ...{ z: switchZone, '?': () => setHelping(true), '/': () => search.current?.focus() },
  });

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
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header>
        <h1>
          <Plain text={name} />
        </h1>
        <search>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              // A copied id is often surrounded by spaces or line ends.
              const find = search.current?.value.trim() ?? '';
              if (find !== '') visit(hrefOf({ view: 'events', find }));
            }}
          >
            <input
              ref={search}
              type="search"
              aria-label="Find an event or a movement by its id"
              placeholder="Find an id  /"
              spellcheck={false}
              autocomplete="off"
            />
          </form>
        </search>
        <nav class="views" aria-label="Views">
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
        <div class="frame-foot">
          <span class={connection.value.open ? 'live' : 'live live-off'}>
            {connection.value.open ? 'Live' : 'Not connected'}
          </span>
          <button
            type="button"
            class="quiet"
            title="Switch between UTC and local time (z)"
            onClick={switchZone}
          >
            Times in {zoneName.value}
          </button>
          <button type="button" class="quiet" onClick={() => setHelping(true)}>
            Keys <kbd>?</kbd>
          </button>
        </div>
      </header>
      <div class="content">
        <Disconnected />
        <Lost name={name} />
        <main id="main" tabIndex={-1} ref={main}>
          {VIEWS[view].content()}
        </main>
      </div>
      <Notice />
      {isHelping && (
        <Dialog
          title="Keys"
          submit="Done"
          onSubmit={() => setHelping(false)}
          onClose={() => setHelping(false)}
        >
          <dl class="facts">
            {KEY_HELP.map(([keys, meaning]) => (
              <div key={keys}>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{meaning}</dd>
              </div>
            ))}
          </dl>
        </Dialog>
      )}
    </div>
  );
}

function Disconnected() {
  const { open, since, refused } = connection.value;
  return (
    <div role="alert">
      {!open && (
        <p class="banner">
          {refused === undefined ? 'The inspector does not respond.' : toPlain(refused)} The page shows data
          from <Time at={since} />
          and is trying to reconnect.
        </p>
      )}
    </div>
  );
}

function Lost({ name }: { readonly name: string }) {
  const state = connection.value.open ? lost.value : undefined;
  return (
    <div role="alert">
      {state !== undefined && (
        <p class="banner">
          <Plain text={name} /> has been unreadable since <Time at={state.since} />.{' '}
          <Plain text={state.why} /> The page shows older data until it can be read again.
        </p>
      )}
    </div>
  );
}
