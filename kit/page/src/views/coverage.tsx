import { useState } from 'preact/hooks';
import type { CoverageReport, GapRow } from '../../../src/inspector/api.js';
import { Dialog } from '../dialog';
import { staleFor, tellChanged } from '../live';
import { useLoaded } from '../load';
import { attempt } from '../notice';
import { Plain, toPlain } from '../plain';
import { act, ask, can } from '../server';
import { Time } from '../time';
import './coverage.css';

/** What is proven to be in the inbox, and where events can be missing. */
export function CoverageView() {
  const { data, error, reload } = useCoverage();
  return (
    <section class="coverage" aria-labelledby="coverage-title">
      <h2 id="coverage-title">Coverage</h2>
      {error !== undefined && (
        <p class="bad" role="alert">
          The coverage could not be read: <bdi>{toPlain(error)}</bdi>{' '}
          <button type="button" onClick={reload}>
            Try again
          </button>
        </p>
      )}
      {data === undefined ? error === undefined && <p class="faint">Loading …</p> : <Report report={data} />}
    </section>
  );
}
