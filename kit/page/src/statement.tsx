/** Who acts, and why: the inbox keeps both. */
export interface Statement {
  readonly by: string;
  readonly reason: string;
}

export const NO_STATEMENT: Statement = { by: '', reason: '' };

/** The fields of a {@link Statement}. The form cannot be submitted while one is empty. */
export function StatementFields({
  value,
  onChange,
}: {
  readonly value: Statement;
  readonly onChange: (value: Statement) => void;
}) {
  return (
    <>
      <label>
        Your name
        <input
          required
          maxLength={200}
          pattern=".*\S.*"
          value={value.by}
          onInput={({ currentTarget }) => onChange({ ...value, by: currentTarget.value })}
        />
      </label>
      <label>
        Reason
        <textarea
          required
          maxLength={1_000}
          rows={3}
          value={value.reason}
          onInput={({ currentTarget }) => onChange({ ...value, reason: currentTarget.value })}
        />
      </label>
    </>
  );
}
