/** The card of a call whose tool asks a person half-way: a small form, an address to open, or words. What the tool or its
 * server says is text, never rendered as Markdown or HTML, and never looks like the words of this page. */
import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import { ErrorNote } from "../../parts/notes";
import { Duration } from "../../parts/time";
import { spellHidden, Verbatim } from "../../parts/verbatim";
import { answersPost, type Approval, approvalPost, type AskedInput, type GivenAnswers, type InputField, type InputQuestion } from "../../sdk";
import { mayDecide, useSession } from "../../session";
import { useAnswering } from "./answering";
import { useApprovals, useNow } from "./approvals";
import { CardHeading } from "./card-heading";
import { Outcome } from "./outcome";

const MAX_ANSWER = 8000;

interface CardProps {
  approval: Approval;
  /** The inbox says which chat asks; in the chat itself this is known. */
  showChat?: boolean;
}

export function InputCard({ approval, showChat = false }: CardProps) {
  const { decisions, live } = useApprovals();
  const now = useNow();
  const title = useId();
  const decision = approval.id !== null ? decisions.get(approval.id) : undefined;
  const waits = live.data?.approvals.some((each) => each.id === approval.id) ?? true;
  const asked = approval.input;

  return (
    <section className="card approval question" aria-labelledby={title} data-approval={approval.id} tabIndex={-1}>
      <CardHeading id={title} approval={approval} showChat={showChat}>
        runs <code>{approval.tool}</code>, which asks a person.
      </CardHeading>
      {approval.damaged !== null && (
        <ErrorNote title="This question cannot be shown whole, so it cannot be answered." message={approval.damaged} />
      )}
      {asked !== null && <Words asked={asked} />}
      {approval.asked_ns !== null && decision === undefined && waits && (
        <p className="faint">
          It has waited for <Duration ms={now - approval.asked_ns / 1e6} />.
        </p>
      )}
      {decision !== undefined ? (
        <Outcome decision={decision} now={now} />
      ) : waits ? (
        asked !== null && <InputForm approval={approval} asked={asked} />
      ) : (
        <p className="outcome" role="status">
          This question does not wait any more.
        </p>
      )}
    </section>
  );
}

/** Who asks, and a warning. */
function Words({ asked }: { asked: AskedInput }) {
  return (
    <p>
      {asked.server === "" ? (
        <>
          These are the words of the tool <code>{asked.tool}</code>.
        </>
      ) : (
        <>
          These are the words of the server{" "}
          <code>
            <Verbatim text={asked.server} />
          </code>
          .
        </>
      )}{" "}
      <strong>Never answer with a password, a key or a card number: no tool may ask for one this way.</strong>
    </p>
  );
}

type Values = Record<string, string | string[]>;

function InputForm({ approval, asked }: { approval: Approval; asked: AskedInput }) {
  const session = useSession();
  const form = useRef<HTMLFormElement>(null);
  const { sending, problem, fieldProblems, send } = useAnswering(approval, form);
  const [values, setValues] = useState<Record<string, Values>>(() =>
    Object.fromEntries(asked.questions.map((each) => [each.key, Object.fromEntries(each.fields.map((field) => [field.name, initial(field)]))])),
  );
  const busy = sending !== undefined;
  const isForm = asked.questions.some((each) => each.kind !== "url");

  useEffect(() => {
    if (Object.keys(fieldProblems).length > 0) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [fieldProblems]);
  if (!mayDecide(session)) return <p className="outcome">Somebody with the role approver answers this.</p>;

  const change = (key: string, name: string, value: string | string[]) =>
    setValues((old) => ({ ...old, [key]: { ...old[key], [name]: value } }));
  const answer = (event: FormEvent) => {
    event.preventDefault();
    const answers: GivenAnswers = {};
    for (const question of asked.questions) answers[question.key] = accepted(question, values[question.key] ?? {});
    void send("answer", (id) => answersPost(id, answers));
  };
  const decline = () =>
    send("decline", (id) => answersPost(id, Object.fromEntries(asked.questions.map((each) => [each.key, { action: "decline" }]))));
  const end = () => send("end", (id) => approvalPost(id, "reject", ""));

  return (
    <form className="decision" ref={form} onSubmit={answer} noValidate>
      {asked.questions.map((question, index) => (
        <QuestionFields
          key={question.key}
          question={question}
          values={values[question.key] ?? {}}
          problems={fieldProblems}
          isFirst={index === 0}
          onChange={(name, value) => change(question.key, name, value)}
        />
      ))}
      {problem !== "" && <ErrorNote message={problem} />}
      <div className="buttons">
        <button type="button" disabled={busy} onClick={end}>
          End the call
        </button>
        <button type="button" data-key="r" disabled={busy} onClick={decline}>
          {sending === "decline" ? "Declining …" : "Decline to answer"}
        </button>
        <button type="submit" className="primary" disabled={busy}>
          {sending === "answer" ? "Answering …" : isForm ? "Answer" : "I am done there"}
        </button>
      </div>
    </form>
  );
}

interface FieldsProps {
  question: InputQuestion;
  values: Values;
  problems: Record<string, string>;
  isFirst: boolean;
  onChange: (name: string, value: string | string[]) => void;
}

function QuestionFields({ question, values, problems, isFirst, onChange }: FieldsProps) {
  const own = useId();
  return (
    <fieldset className="column" aria-label={spellHidden(question.message)}>
      <p className="plain question-text" dir="auto">
        <Verbatim text={question.message} />
      </p>
      {question.url !== null && (
        <p>
          It asks you to open{" "}
          <code>
            <Verbatim text={question.url} />
          </code>{" "}
          on the host <strong>{question.host}</strong>. Open it only if you trust that host:{" "}
          <a href={question.url} target="_blank" rel="noopener noreferrer" data-key={isFirst ? "a" : undefined}>
            open {question.host}
          </a>
        </p>
      )}
      {question.kind === "text" && (
        <div className="field">
          <label htmlFor={own}>Your answer</label>
          <textarea
            id={own}
            data-key={isFirst ? "a" : undefined}
            dir="auto"
            rows={2}
            maxLength={MAX_ANSWER}
            value={String(values.text ?? "")}
            onChange={(event) => onChange("text", event.target.value)}
          />
        </div>
      )}
      {question.fields.map((field, index) => (
        <Field
          key={field.name}
          field={field}
          value={values[field.name] ?? ""}
          problem={problems[field.name]}
          isFirst={isFirst && index === 0}
          onChange={(value) => onChange(field.name, value)}
        />
      ))}
    </fieldset>
  );
}

interface FieldProps {
  field: InputField;
  value: string | string[];
  problem: string | undefined;
  isFirst: boolean;
  onChange: (value: string | string[]) => void;
}

function Field({ field, value, problem, isFirst, onChange }: FieldProps) {
  const own = useId();
  const told = [hintOf(field) !== "" ? `${own}-hint` : "", problem !== undefined ? `${own}-problem` : ""].filter(Boolean).join(" ");
  const common = {
    id: own,
    "data-key": isFirst ? "a" : undefined,
    "aria-invalid": problem !== undefined ? true : undefined,
    "aria-describedby": told === "" ? undefined : told,
    "aria-required": field.required,
  };
  return (
    <div className="field">
      {field.kind === "choices" ? (
        <fieldset className="column" tabIndex={-1} {...common}>
          <legend>
            <Label field={field} />
          </legend>
          {field.choices.map((choice) => (
            <label key={choice.value}>
              <input
                type="checkbox"
                checked={value.includes(choice.value)}
                onChange={(event) =>
                  onChange([...(value as string[]).filter((each) => each !== choice.value), ...(event.target.checked ? [choice.value] : [])])
                }
              />{" "}
              <Verbatim text={choice.title} />
            </label>
          ))}
        </fieldset>
      ) : (
        <>
          <label htmlFor={own}>
            <Label field={field} />
          </label>
          {field.kind === "choice" || field.kind === "boolean" ? (
            <select {...common} value={String(value)} onChange={(event) => onChange(event.target.value)}>
              <option value="">No answer</option>
              {optionsOf(field).map((choice) => (
                <option key={choice.value} value={choice.value}>
                  {spellHidden(choice.title)}
                </option>
              ))}
            </select>
          ) : (
            <input
              {...common}
              dir="auto"
              type={field.format === "date" ? "date" : "text"}
              inputMode={field.kind === "text" ? undefined : "decimal"}
              autoComplete="off"
              maxLength={MAX_ANSWER}
              value={String(value)}
              onChange={(event) => onChange(event.target.value)}
            />
          )}
        </>
      )}
      {hintOf(field) !== "" && (
        <p className="faint" id={`${own}-hint`} dir="auto">
          <Verbatim text={hintOf(field)} />
        </p>
      )}
      {problem !== undefined && (
        <p className="problem" id={`${own}-problem`}>
          It {problem}.
        </p>
      )}
    </div>
  );
}

function Label({ field }: { field: InputField }) {
  return (
    <>
      <Verbatim text={field.title} />
      {field.required ? "" : " (may be left out)"}
    </>
  );
}

const YES_OR_NO = [
  { value: "true", title: "Yes" },
  { value: "false", title: "No" },
];

const optionsOf = (field: InputField) => (field.kind === "boolean" ? YES_OR_NO : field.choices);

function hintOf(field: InputField): string {
  const unit = field.kind === "text" ? " characters" : field.kind === "choices" ? " choices" : "";
  const limits = [field.least !== null ? `from ${field.least}` : "", field.most !== null ? `to ${field.most}` : ""].filter(Boolean);
  return [field.description, field.format, limits.length > 0 ? `${limits.join(" ")}${unit}` : ""].filter(Boolean).join(" · ");
}

function initial(field: InputField): string | string[] {
  if (field.kind === "choices") return Array.isArray(field.default) ? field.default : [];
  return field.default === null ? "" : String(field.default);
}

/** The answer to one question. A field that was left empty is left out, and has its default then. */
function accepted(question: InputQuestion, values: Values): GivenAnswers[string] {
  if (question.kind === "url") return { action: "accept" };
  if (question.kind === "text") return { action: "accept", content: { text: String(values.text ?? "") } };
  const content: Record<string, unknown> = {};
  for (const field of question.fields) {
    const value = values[field.name] ?? "";
    if (value === "" || (Array.isArray(value) && value.length === 0 && !field.required)) continue;
    content[field.name] = typed(field, value);
  }
  return { action: "accept", content };
}

function typed(field: InputField, value: string | string[]): unknown {
  if (Array.isArray(value)) return value;
  if (field.kind === "boolean") return value === "true";
  const isNumber = (field.kind === "number" || field.kind === "integer") && value.trim() !== "" && Number.isFinite(Number(value));
  return isNumber ? Number(value) : value;
}
