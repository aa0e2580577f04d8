/** A field of a form for a text: with its limits, the characters in it, and what is wrong with it. */
import { useId } from "react";
import { hasHidden, Verbatim } from "../../parts/verbatim";

/** The number of characters as the server counts them: code points, a line break as one. */
export const lengthOf = (text: string) => Array.from(text.normalize("NFC")).length;

interface TextFieldProps {
  label: string;
  value: string;
  onChange: (text: string) => void;
  /** The fewest and the most characters. */
  limits?: [fewest: number, most: number];
  /** Lines that are shown at first; with 1 the text is one line. */
  rows?: number;
  about?: string;
  /** What is wrong with it. */
  problem?: string;
  code?: boolean;
  readOnly?: boolean;
  /** The field of a proposal, by which a problem finds it. */
  name?: string;
}

export function TextField({ label, value, onChange, limits, rows = 1, about, problem = "", code = false, readOnly = false, name }: TextFieldProps) {
  const id = useId();
  const count = lengthOf(value);
  const isOver = limits !== undefined && count > limits[1];
  const isMarked = hasHidden(value);
  const common = {
    id,
    value,
    readOnly,
    "data-field": name,
    dir: code ? ("ltr" as const) : ("auto" as const),
    className: code ? "code" : undefined,
    "aria-describedby": [isMarked && `${id}-hidden`, problem !== "" && `${id}-problem`, about !== undefined && `${id}-about`].filter(Boolean).join(" ") || undefined,
    "aria-invalid": problem !== "" || isOver || undefined,
    spellCheck: !code,
  };
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {limits !== undefined && (
        <span dir="ltr" className={isOver ? "counter over" : "counter"}>
          {count.toLocaleString()} <span aria-hidden="true">/</span>
          <span className="unseen">of at most</span> {limits[1].toLocaleString()}
        </span>
      )}
      {rows === 1 ? (
        <input {...common} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <textarea {...common} rows={rows} style={{ minBlockSize: `${1.5 * rows + 0.9}rem` }} onChange={(event) => onChange(event.target.value)} />
      )}
      {isMarked && (
        <p className="field-verbatim" id={`${id}-hidden`}>
          This field holds hidden characters:{" "}
          <bdi className="wrap">
            <Verbatim text={value} />
          </bdi>
        </p>
      )}
      {problem !== "" && (
        <p className="bad" id={`${id}-problem`}>
          {problem}
        </p>
      )}
      {about !== undefined && (
        <p className="faint" id={`${id}-about`}>
          {about}
        </p>
      )}
    </div>
  );
}
