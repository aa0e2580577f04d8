/** The form of a proposal: the eight fields of a tool, why, examples and test cases. Nothing is live by sending it. */
import { type FormEvent, useEffect, useRef, useState } from "react";
import { Problem } from "../../parts/notes";
import { Verbatim } from "../../parts/verbatim";
import { Link, navigate, usePath } from "../../router";
import { ApiError } from "../../sdk";
import { proposalPost, proposalPut } from "../../sdk/review";
import { useSession } from "../../session";
import { ChoiceField } from "./choice-field";
import { Entries } from "./form-entries";
import { useKeptDraft } from "./kept-draft";
import { bodyOf, CASES, type Draft, draftProblems, EXAMPLES, type FieldProblem, LIMITS, newCase, newExample } from "./proposal-draft";
import type { Start } from "./propose-page";
import { PROPOSALS, proposalHref } from "./review-words";
import { CaseFields } from "./test-case-fields";
import { TextField } from "./text-field";
import { FIELDS, ToolText } from "./tool-text";
import { ARCHETYPES, SCOPES } from "./tool-words";

const SEND = { new: "Propose this tool", modify: "Propose this change", delete: "Propose to delete it" };
const FIELD_WORDS: Record<string, string> = { ...Object.fromEntries(FIELDS), rationale: "Rationale", examples: "Examples", testCases: "Test cases", target: "Layer" };
const TARGETS = { user: "user: all projects of this user", project: "project: this project alone" };

/** Returns the problems that an answer of the server names field by field; null if it is another error. */
function problemsIn(error: unknown): FieldProblem[] | null {
  if (!(error instanceof ApiError)) return null;
  if (error.code === "core_tool_locked") return [{ field: "id", problem: error.message }];
  return error.code === "invalid_proposal" && Array.isArray(error.details.problems) ? error.details.problems : null;
}

/** The name of a field for a person: `testCases[0].reply` is that of the first test case. */
function fieldWords(field: string): string {
  const [, list, at, rest] = /^(examples|testCases)\[(\d+)\]\.?(.*)$/.exec(field) ?? [];
  if (list === undefined) return FIELD_WORDS[field] ?? field;
  return `${list === "examples" ? "Example" : "Test case"} ${Number(at) + 1}${rest === "" ? "" : `, ${rest}`}`;
}

export function ProposeForm({ start }: { start: Start }) {
  const path = usePath();
  const { actor } = useSession();
  const { draft, change, isOld, isOutdated, forget } = useKeptDraft(`demiurge draft 1 ${actor} ${path}`, start.draft, start.began);
  const [problems, setProblems] = useState<FieldProblem[]>([]);
  const [error, setError] = useState<unknown>();
  const [sending, setSending] = useState(false);
  const busy = useRef(false);
  const form = useRef<HTMLFormElement>(null);
  const summary = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (problems.length > 0) summary.current?.focus();
  }, [problems]);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (busy.current) return;
    const own = draftProblems(draft);
    setProblems(own);
    setError(undefined);
    if (own.length > 0) return;
    busy.current = true;
    setSending(true);
    try {
      const body = bodyOf(draft);
      const made = start.revises === undefined ? await proposalPost(body) : await proposalPut(start.revises, body);
      forget();
      navigate(proposalHref(made.id));
    } catch (refused) {
      const found = problemsIn(refused);
      setProblems(found ?? []);
      if (found === null) setError(refused);
    }
    busy.current = false;
    setSending(false);
  };
  const problemOf = (field: string) =>
    problems
      .filter((each) => each.field === field)
      .map((each) => each.problem)
      .join(" ");
  const show = (field: string) => {
    const place = form.current?.querySelector<HTMLElement>(`[data-field=${JSON.stringify(nearest(form.current, field))}]`);
    place?.closest("details")?.setAttribute("open", "");
    place?.focus();
  };
  const text = (name: keyof Draft & string, label: string, rows: number, about?: string) => (
    <TextField
      name={name}
      label={label}
      value={String(draft[name] ?? "")}
      limits={LIMITS[name]}
      rows={rows}
      about={about}
      problem={problemOf(name)}
      readOnly={name === "id" && (draft.proposalType !== "new" || start.revises !== undefined)}
      onChange={(value) => change({ [name]: value })}
    />
  );
  const isNew = draft.proposalType === "new";
  return (
    <form className="propose" ref={form} onSubmit={submit} aria-label={start.title} noValidate>
      <p>
        <Link href={start.back.href}>{start.back.label}</Link>
      </p>
      <h2>{start.title}</h2>
      <p className="faint">Nothing is live by this: the proposal is checked, reviewed by the Chief of Staff, and approved or rejected by a user.</p>
      {start.note !== undefined && <p className="mark">{start.note}</p>}
      {(isOld || isOutdated) && (
        <p className="mark" role="status">
          <strong>Draft</strong>: {isOld && "you began this earlier. "}
          {isOutdated && "What it began with has another text now. "}
          <button type="button" className="link" onClick={forget}>
            Discard the draft
          </button>
        </p>
      )}
      {problems.length > 0 && (
        <div ref={summary} tabIndex={-1} role="alert" className="problem">
          <strong>{problems.length === 1 ? "One thing has to change" : `${problems.length} things have to change`} before this can be proposed.</strong>
          <ul>
            {problems.map((each, at) => (
              <li key={at}>
                <button type="button" className="link" onClick={() => show(each.field)}>
                  {fieldWords(each.field)}
                </button>{" "}
                <bdi>
                  <Verbatim text={each.problem} />
                </bdi>
              </li>
            ))}
          </ul>
        </div>
      )}
      {draft.proposalType === "delete" ? (
        <details className="card" open>
          <summary>The tool that would be deleted</summary>
          <ToolText record={{ id: draft.id, name: draft.name, usageNotes: draft.usageNotes, goals: draft.goals, guardrails: draft.guardrails, prompt: draft.prompt }} />
        </details>
      ) : (
        <fieldset>
          <legend>The tool</legend>
          <div className="field-row">
            {text("id", "Id", 1, isNew && start.revises === undefined ? "3 to 48 lower-case letters, digits and _, beginning with a letter." : "The id stays as it is.")}
            {text("name", "Name", 1)}
          </div>
          <div className="field-row">
            <ChoiceField label="Archetype" value={draft.archetype} none="none" choices={ARCHETYPES} problem={problemOf("archetype")} onChange={(archetype) => change({ archetype })} />
            <ChoiceField label="Scope" value={draft.scope} none="none" choices={SCOPES} problem={problemOf("scope")} onChange={(scope) => change({ scope })} />
            <ChoiceField
              label="Layer"
              value={draft.target}
              choices={["user", "project"]}
              words={TARGETS}
              disabled={!isNew || start.revises !== undefined}
              problem={problemOf("target")}
              onChange={(target) => change({ target: target as Draft["target"] })}
            />
          </div>
          {text("usageNotes", "When to use it", 2, "One line: the catalog shows it to the model.")}
          {text("goals", "Goals", 2)}
          {text("guardrails", "Guardrails", 3)}
          {text("prompt", "Prompt", 8, "The text that a model is given. It gives no permission and adds no tool that can be called.")}
        </fieldset>
      )}
      <fieldset>
        <legend>Why</legend>
        {text("rationale", "Rationale", 3, "At least 20 characters: why this is needed.")}
      </fieldset>
      {draft.proposalType !== "delete" && (
        <>
          <Entries
            legend="Examples"
            field="examples"
            about="Two or three: what somebody asks, and what should come."
            limits={EXAMPLES}
            entries={draft.examples}
            problem={problemOf("examples")}
            name="example"
            make={newExample}
            onChange={(examples) => change({ examples })}
          >
            {(example, at, onChange) => (
              <>
                {problemOf(`examples[${at}]`) !== "" && <p className="bad">{problemOf(`examples[${at}]`)}</p>}
                <TextField name={`examples[${at}].input`} label="Input" rows={2} limits={LIMITS.text} value={example.input} problem={problemOf(`examples[${at}].input`)} onChange={(input) => onChange({ ...example, input })} />
                <TextField name={`examples[${at}].expected`} label="Expected" rows={2} limits={LIMITS.text} value={example.expected} problem={problemOf(`examples[${at}].expected`)} onChange={(expected) => onChange({ ...example, expected })} />
              </>
            )}
          </Entries>
          <Entries
            legend="Test cases"
            field="testCases"
            about="Two to ten, with at least one that should pass and one that should fail."
            limits={CASES}
            entries={draft.cases}
            problem={problemOf("testCases")}
            name="test case"
            make={() => newCase(draft.cases)}
            onChange={(cases) => change({ cases })}
          >
            {(each, at, onChange) => <CaseFields draft={each} path={`testCases[${at}]`} problemOf={problemOf} onChange={onChange} />}
          </Entries>
        </>
      )}
      {error !== undefined && <Problem error={error} />}
      {error instanceof ApiError && error.status === 0 && (
        <p className="bad">
          It is not known whether the proposal was taken: look at <Link href={PROPOSALS}>the proposals</Link> before you send it again.
        </p>
      )}
      {problems.length > 0 && <p className="bad">See above what has to change.</p>}
      <div className="buttons">
        <button type="submit" className="primary" disabled={sending}>
          {sending ? "Sending …" : start.revises !== undefined ? "Send the revision" : SEND[draft.proposalType]}
        </button>
        <span className="faint">A draft stays in this tab until it is sent or discarded.</span>
      </div>
    </form>
  );
}

/** Returns the field of the form that is nearest to the field of a problem: `testCases[0].expect` is in `testCases[0]`. */
function nearest(form: HTMLFormElement, field: string): string {
  const names = [...form.querySelectorAll<HTMLElement>("[data-field]")].map((each) => each.dataset.field!);
  for (let part = field; part !== ""; part = part.replace(/(\.[^.[]*|\[\d+\]|^[^.[]*)$/, "")) {
    const found = names.find((name) => name === part) ?? names.find((name) => name.startsWith(`${part}.`) || name.startsWith(`${part}[`));
    if (found !== undefined) return found;
  }
  return "";
}
