import { useState } from 'preact/hooks';
import type { ActionInputs, AttemptDetail, AttemptKind, AttemptRow } from '../../../src/inspector/api.js';
import { decodeBase64 } from '../bytes';
import { Dialog } from '../dialog';
import { attempt } from '../notice';
import { act } from '../server';
import { formatMs } from '../time';
import { go } from '../url';

export function Resend({ detail }: { readonly detail: AttemptDetail }) {
  const [asks, setAsks] = useState<'body' | 'url'>();
  const [isSending, setSending] = useState(false);

  async function send(change: Omit<ActionInputs['resend'], 'id'>): Promise<void> {
    setAsks(undefined);
    setSending(true);
    const sent: { made?: AttemptRow } = {};
    await attempt(async () => {
      const made = await act('resend', { id: detail.id, ...change });
      sent.made = made;
      // A refusal is not a success, although the request was sent.
      if (made.kind !== 'accepted') throw new Error(describe(made));
      return made;
    }, describe);
    setSending(false);
    if (sent.made !== undefined) go({ attempt: sent.made.id });
  }

  return (
    <>
      <button type="button" class="primary" disabled={isSending} onClick={() => send({})}>
        {isSending ? 'Sending …' : 'Resend'}
      </button>
      <button type="button" disabled={isSending} onClick={() => setAsks('body')}>
        Edited …
      </button>
      <button type="button" disabled={isSending} onClick={() => setAsks('url')}>
        Elsewhere …
      </button>
      {asks === 'body' && (
        <EditBody
          body={detail.request.body}
          onClose={() => setAsks(undefined)}
          onSubmit={(body) => send({ body })}
        />
      )}
      {asks === 'url' && (
        <EditUrl
          url={detail.request.url}
          onClose={() => setAsks(undefined)}
          onSubmit={(url) => send({ url })}
        />
      )}
    </>
  );
}

const RESULTS: Readonly<Record<AttemptKind, string>> = {
  accepted: 'Accepted',
  'wrongly-accepted': 'Accepted despite a wrong signature',
  'without-effect': 'Accepted without effect',
  refused: 'Refused',
  failed: 'The endpoint failed',
  unanswered: 'Not delivered',
};

function describe({ kind, status, outcome, durationMs }: AttemptRow): string {
  const what = [status, outcome].filter((part) => part !== null).join(' ');
  return `${RESULTS[kind]}: ${what} after ${formatMs(durationMs)}.`;
}

interface Editing {
  readonly onClose: () => void;
  readonly onSubmit: (value: string) => void;
}

function EditBody({ body, onClose, onSubmit }: Editing & { readonly body: string }) {
  const [content, setContent] = useState(() => new TextDecoder().decode(decodeBase64(body)));
  const submit = () => onSubmit(encodeBase64(new TextEncoder().encode(content)));
  return (
    <Dialog title="Resend edited" submit="Send" onSubmit={submit} onClose={onClose}>
      <p>The body is signed with the endpoint's secret.</p>
      <label>
        Body
        <textarea
          class="deliveries-body"
          rows={16}
          spellcheck={false}
          value={content}
          onInput={({ currentTarget }) => setContent(currentTarget.value)}
        />
      </label>
    </Dialog>
  );
}

function EditUrl({ url, onClose, onSubmit }: Editing & { readonly url: string }) {
  const [value, setValue] = useState(url);
  return (
    <Dialog title="Send to another URL" submit="Send" onSubmit={() => onSubmit(value)} onClose={onClose}>
      <p>The same body is sent again, signed with the endpoint's secret.</p>
      <label>
        URL
        <input
          type="url"
          required
          pattern="https?://.*"
          title="An http or https URL"
          value={value}
          onInput={({ currentTarget }) => setValue(currentTarget.value)}
        />
      </label>
    </Dialog>
  );
}

function encodeBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  // A call takes only a limited number of arguments.
  for (let at = 0; at < bytes.length; at += 8_192) {
    parts.push(String.fromCharCode(...bytes.subarray(at, at + 8_192)));
  }
  return btoa(parts.join(''));
}
