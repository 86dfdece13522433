export interface Statement {
  readonly by: string;
  readonly reason: string;
}

const KEY = 'stablehooks-inspector:name';

export const newStatement = (): Statement => ({ by: localStorage.getItem(KEY) ?? '', reason: '' });

export function keepName({ by }: Statement): void {
  localStorage.setItem(KEY, by);
}

export function StatementFields({
  value,
  isOptional = false,
  onChange,
}: {
  readonly isOptional?: boolean;
  readonly value: Statement;
  readonly onChange: (value: Statement) => void;
}) {
  return (
    <>
      <label>
        Your name{isOptional && ' (optional)'}
        <input
          required={!isOptional}
          maxLength={200}
          pattern=".*\S.*"
          value={value.by}
          onInput={({ currentTarget }) => onChange({ ...value, by: currentTarget.value })}
        />
      </label>
      <label>
        Reason{isOptional && ' (optional)'}
        <textarea
          required={!isOptional}
          maxLength={1_000}
          rows={isOptional ? 1 : 3}
          value={value.reason}
          onInput={({ currentTarget }) => onChange({ ...value, reason: currentTarget.value })}
        />
      </label>
    </>
  );
}
