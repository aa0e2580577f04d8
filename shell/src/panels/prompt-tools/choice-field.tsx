/** A field of a form for one of some values. */
import { useId } from "react";

interface ChoiceFieldProps {
  label: string;
  value: string;
  choices: string[];
  onChange: (value: string) => void;
  /** What no value is called; left out if there must be one. */
  none?: string;
  words?: Record<string, string>;
  problem?: string;
  disabled?: boolean;
  name?: string;
}

export function ChoiceField({ label, value, choices, onChange, none, words = {}, problem = "", disabled = false, name }: ChoiceFieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        data-field={name}
        value={value}
        disabled={disabled}
        aria-invalid={problem !== "" || undefined}
        aria-describedby={problem !== "" ? `${id}-problem` : undefined}
        onChange={(event) => onChange(event.target.value)}
      >
        {none !== undefined && <option value="">{none}</option>}
        {choices.map((each) => (
          <option key={each} value={each}>
            {words[each] ?? each}
          </option>
        ))}
      </select>
      {problem !== "" && (
        <p className="bad" id={`${id}-problem`}>
          {problem}
        </p>
      )}
    </div>
  );
}
