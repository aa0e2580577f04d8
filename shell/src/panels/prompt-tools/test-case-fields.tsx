/** The fields of a test case: a reply of a model with what is expected of it, or words for a person who looks at it. */
import { useState } from "react";
import { ChoiceField } from "./choice-field";
import { CASE_KINDS, type CaseDraft, LIMITS } from "./proposal-draft";
import { TextField } from "./text-field";

const KIND_WORDS = { example: "example", format: "format", evidence: "evidence", must_not: "must not" };
const SHOULD_WORDS = { pass: "pass: the reply meets every expectation", fail: "fail: the reply breaks one of them" };
const HOW_WORDS = { automatic: "automatic: a reply is checked", manual: "manual: a person looks at it" };
const EVIDENCE_WORDS = { required: "required", forbidden: "forbidden" };

interface CaseFieldsProps {
  draft: CaseDraft;
  /** Such as `testCases[0]`. */
  path: string;
  problemOf: (field: string) => string;
  onChange: (draft: CaseDraft) => void;
}

export function CaseFields({ draft, path, problemOf, onChange }: CaseFieldsProps) {
  const change = (part: Partial<CaseDraft>) => onChange({ ...draft, ...part });
  const problem = (...names: string[]) => names.map((name) => problemOf(`${path}.${name}`)).filter(Boolean).join(" ");
  return (
    <>
      {problemOf(path) !== "" && <p className="bad">{problemOf(path)}</p>}
      <div className="field-row">
        <TextField name={`${path}.id`} label="Case id" value={draft.id} problem={problem("id")} onChange={(id) => change({ id })} />
        <ChoiceField label="Kind" value={draft.kind} choices={CASE_KINDS} words={KIND_WORDS} problem={problem("kind")} onChange={(kind) => change({ kind })} />
      </div>
      <div className="field-row">
        <ChoiceField label="Should" value={draft.should} choices={["pass", "fail"]} words={SHOULD_WORDS} problem={problem("should")} onChange={(should) => change({ should: should as CaseDraft["should"] })} />
        <ChoiceField label="How" value={draft.isManual ? "manual" : "automatic"} choices={["automatic", "manual"]} words={HOW_WORDS} onChange={(how) => change({ isManual: how === "manual" })} />
      </div>
      {draft.isManual ? (
        <TextField name={`${path}.check`} label="What a person looks at" rows={2} limits={LIMITS.text} value={draft.check} problem={problem("check")} onChange={(check) => change({ check })} />
      ) : (
        <AutomaticFields draft={draft} path={path} problem={problem} change={change} />
      )}
    </>
  );
}

interface AutomaticProps {
  draft: CaseDraft;
  path: string;
  problem: (...names: string[]) => string;
  change: (part: Partial<CaseDraft>) => void;
}

function AutomaticFields({ draft, path, problem, change }: AutomaticProps) {
  const [isOpen, setOpen] = useState(draft.more !== "" || draft.given !== "");
  return (
    <>
      <TextField name={`${path}.reply`} label="Reply of a model" rows={2} limits={LIMITS.text} value={draft.reply} problem={problem("reply")} onChange={(reply) => change({ reply })} />
      {problem("expect") !== "" && <p className="bad">{problem("expect")}</p>}
      <div className="field-row">
        <TextField
          name={`${path}.expect.must_match`}
          label="Must match"
          rows={2}
          code
          about="A regular expression on each line."
          value={draft.mustMatch}
          problem={problem("expect.must_match")}
          onChange={(mustMatch) => change({ mustMatch })}
        />
        <TextField
          name={`${path}.expect.must_not_match`}
          label="Must not match"
          rows={2}
          code
          about="A regular expression on each line."
          value={draft.mustNotMatch}
          problem={problem("expect.must_not_match")}
          onChange={(mustNotMatch) => change({ mustNotMatch })}
        />
      </div>
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>More expectations</summary>
        <div className="column">
          <div className="checks">
            <label>
              <input type="checkbox" checked={draft.jsonOnly} onChange={(event) => change({ jsonOnly: event.target.checked })} /> one JSON object alone
            </label>
            <label>
              <input type="checkbox" checked={draft.noFences} onChange={(event) => change({ noFences: event.target.checked })} /> no code fences
            </label>
          </div>
          <div className="field-row">
            <ChoiceField label="Evidence" value={draft.evidence} none="not checked" choices={["required", "forbidden"]} words={EVIDENCE_WORDS} problem={problem("expect.evidence")} onChange={(evidence) => change({ evidence })} />
            <TextField name={`${path}.expect.max_chars`} label="At most so many characters" value={draft.maxChars} problem={problem("expect.max_chars")} onChange={(maxChars) => change({ maxChars })} />
            <TextField name={`${path}.expect.tool`} label="Calls the tool" value={draft.tool} problem={problem("expect.tool")} onChange={(tool) => change({ tool })} />
          </div>
          <TextField
            name={`${path}.more`}
            label="Other expectations"
            rows={2}
            code
            about="A JSON object with args, receipt or stop_hook."
            value={draft.more}
            problem={problem("more", "expect.args", "expect.receipt", "expect.stop_hook")}
            onChange={(more) => change({ more })}
          />
          <TextField
            name={`${path}.given`}
            label="What is given"
            rows={2}
            code
            about="A JSON object with message, files, tool_results or receipts."
            value={draft.given}
            problem={problem("given", "given.message", "given.files", "given.tool_results", "given.receipts")}
            onChange={(given) => change({ given })}
          />
        </div>
      </details>
    </>
  );
}
