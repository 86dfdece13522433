import { useEffect, useRef, useState } from 'preact/hooks';
import { Dialog } from './dialog';
import { tellReader } from './notice';

export function Copy({
  title,
  what,
  text,
}: {
  readonly title: string;
  readonly what: string;
  readonly text: () => string;
}) {
  const [shown, setShown] = useState<string>();
  async function copy(): Promise<void> {
    const copied = text();
    try {
      await navigator.clipboard.writeText(copied);
      tellReader(`${what} was copied.`);
    } catch {
      // The origin is not secure, or the reader has refused access to the clipboard.
      setShown(copied);
    }
  }
  const close = () => setShown(undefined);
  return (
    <>
      <button type="button" onClick={copy}>
        {title}
      </button>
      {shown !== undefined && (
        <Dialog title={title} submit="Done" onSubmit={close} onClose={close}>
          <p>This page cannot access the clipboard. Copy the selected text yourself.</p>
          <Selected text={shown} />
        </Dialog>
      )}
    </>
  );
}

function Selected({ text }: { readonly text: string }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // This must wait until the dialog has focused its first field.
    const frame = requestAnimationFrame(() => field.current?.select());
    return () => cancelAnimationFrame(frame);
  }, []);
  return <textarea ref={field} aria-label="Text to copy" rows={16} readOnly value={text} />;
}
