/** A form with which a person changes the arguments of a call: a field for each, by the schema of the tool. */
import { useEffect, useId, useRef, useState } from "react";
import { Arguments } from "../../parts/arguments";
import { ErrorNote, Loading } from "../../parts/notes";
import { hasHidden, Verbatim } from "../../parts/verbatim";
import { sentence, toolGet } from "../../sdk";
import { type ArgumentField, argumentsJson, fieldProblem, fieldsOf } from "./argument-fields";

interface EditProps {
  tool: string;
  proposedJson: string;
  sending: boolean;
  onApprove: (json: string) => void;
  onBack: () => void;
}

export function EditArguments({ tool, proposedJson, sending, onApprove, onBack }: EditProps) {
  const [proposed, setProposed] = useState<ArgumentField[]>();
  const [fields, setFields] = useState<ArgumentField[]>([]);
  const [problem, setProblem] = useState("");
  const [seen, setSeen] = useState("");
  const [attempt, setAttempt] = useState(0);
  const title = useId();
  const heading = useRef<HTMLHeadingElement>(null);

  useEffect(() => heading.current?.focus(), []);
  useEffect(() => {
    let gone = false;
    setProblem("");
    toolGet(tool).then(
      ({ input_schema }) => {
        if (gone) return;
        const found = fieldsOf(input_schema, proposedJson);
        setProposed(found);
        setFields(found);
      },
      (error) => gone || setProblem(sentence(error)),
    );
    return () => {
      gone = true;
    };
  }, [tool, proposedJson, attempt]);

  const change = (name: string, part: Partial<ArgumentField>) =>
    setFields((old) => old.map((each) => (each.name === name ? { ...each, ...part } : each)));
  const isSound = fields.every((field) => fieldProblem(field) === "");
  const json = isSound ? argumentsJson(fields) : null;
  const isChanged = proposed !== undefined && json !== argumentsJson(proposed);
  const hint = !isSound ? "A value does not fit." : !isChanged ? "Nothing is changed yet." : seen === json ? "" : "Read the changed arguments to their end first.";

  return (
    <section className="second-step" aria-labelledby={title}>
      <h3 id={title} ref={heading} tabIndex={-1}>
        Change the arguments
      </h3>
      <p className="faint">The call runs once, with these arguments. The model is told the proposed ones and these.</p>
      {problem !== "" && <ErrorNote message={problem} onRetry={() => setAttempt(attempt + 1)} />}
      {proposed === undefined && problem === "" && <Loading label="Loading the schema of the tool" />}
      {fields.map((field) => (
        <Field key={field.name} field={field} onChange={(part) => change(field.name, part)} />
      ))}
      {json !== null && isChanged && (
        <div className="column">
          <h4>This runs</h4>
          <Arguments json={json} label="Changed arguments" onWholeSeen={() => setSeen(json)} />
        </div>
      )}
      <div className="buttons">
        <button type="button" disabled={sending} onClick={onBack}>
          Back
        </button>
        <button type="button" disabled={sending || !isChanged} onClick={() => setFields(proposed ?? [])}>
          Reset
        </button>
        <button
          type="button"
          data-key="a"
          className="primary"
          disabled={sending || json === null || !isChanged || seen !== json}
          onClick={() => json !== null && onApprove(json)}
        >
          {sending ? "Approving …" : "Approve with changed arguments"}
        </button>
        {proposed !== undefined && hint !== "" && <span className="faint">{hint}</span>}
      </div>
    </section>
  );
}

const KINDS: Record<ArgumentField["kind"], string> = {
  text: "text",
  number: "number",
  integer: "whole number",
  choice: "choice",
  json: "JSON",
};

/** A text without its quotation marks; another value as JSON. */
const choiceText = (json: string) => (json.startsWith('"') ? String(JSON.parse(json)) : json);

export function Field({ field, onChange }: { field: ArgumentField; onChange: (part: Partial<ArgumentField>) => void }) {
  const id = useId();
  const problem = fieldProblem(field);
  const isMarked = field.given && hasHidden(field.text);
  const common = {
    id,
    "aria-describedby": isMarked ? `${id}-hidden ${id}-about` : `${id}-about`,
    "aria-invalid": problem !== "" || undefined,
  };
  return (
    <div className="field">
      <label htmlFor={id}>
        <code>
          <Verbatim text={field.name} />
        </code>{" "}
        <span className="faint">{KINDS[field.kind]}</span>
      </label>
      {!field.required && (
        <label className="given">
          <input type="checkbox" checked={field.given} onChange={(event) => onChange({ given: event.target.checked })} />
          <span>
            included<span className="unseen">: {field.name}</span>
          </span>
        </label>
      )}
      {!field.given ? null : field.kind === "choice" ? (
        <select {...common} value={field.text} onChange={(event) => onChange({ text: event.target.value })}>
          {field.choices.map((choice) => (
            <option key={choice} value={choice}>
              {choiceText(choice)}
            </option>
          ))}
        </select>
      ) : field.kind === "number" || field.kind === "integer" ? (
        <input {...common} inputMode="decimal" value={field.text} onChange={(event) => onChange({ text: event.target.value })} />
      ) : (
        <textarea
          {...common}
          dir={field.kind === "json" ? "ltr" : "auto"}
          className={field.kind === "json" ? "code" : undefined}
          rows={Math.min(12, Math.max(1, field.text.split("\n").length))}
          value={field.text}
          onChange={(event) => onChange({ text: event.target.value })}
        />
      )}
      {isMarked && (
        <p className="field-verbatim" id={`${id}-hidden`}>
          This field holds hidden characters:{" "}
          <bdi className="wrap">
            <Verbatim text={field.text} />
          </bdi>
        </p>
      )}
      <p className={problem === "" ? "faint" : "bad"} id={`${id}-about`}>
        {problem !== "" ? problem : field.about}
      </p>
    </div>
  );
}
