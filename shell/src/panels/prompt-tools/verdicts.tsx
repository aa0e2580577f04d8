/** The test cases of a proposal: what the checks say of each, and for a manual one the verdict of a person. */
import { useId, useState } from "react";
import { Name } from "../../parts/name";
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { type CaseVerdict, type Finding, type ProposalCase, type ToolProposal, verdictPost } from "../../sdk/review";
import { isUser, useSession } from "../../session";
import { CasesOnModel } from "./cases-on-model";
import { ProposedText, ProposedValue } from "./proposed-text";
import { isChief, isOpen } from "./review-words";
import { useSend } from "../../parts/use-send";

interface CasesProps {
  proposal: ToolProposal;
  findings: Finding[];
  /** Whether the revision that is shown is the one that this person began to read. */
  isCurrent: boolean;
  reload: () => void;
}

export function TestCases({ proposal, findings, isCurrent, reload }: CasesProps) {
  const cases = proposal.body?.testCases ?? [];
  if (cases.length === 0) return null;
  return (
    <section className="column" aria-labelledby="test-cases">
      <h2 id="test-cases">Test cases</h2>
      {cases.map((each, at) => (
        <section key={at} className="card" aria-label={`Test case ${each.id}`} data-case={each.id}>
          <div className="title-line">
            <h3>
              <Verbatim text={each.id} />
            </h3>
            <span className="tag">should {each.should}</span>
            <span className="tag">{each.kind ?? "example"}</span>
            <CaseResult proposal={proposal} id={each.id} at={at} />
          </div>
          <CaseTexts one={each} path={`testCases[${at}]`} findings={findings} />
          <Broken proposal={proposal} at={at} />
          {each.reply == null && <Verdict proposal={proposal} id={each.id} isCurrent={isCurrent} reload={reload} />}
        </section>
      ))}
      <CasesOnModel proposal={proposal} isCurrent={isCurrent} reload={reload} />
    </section>
  );
}

const lastVerdict = (proposal: ToolProposal, id: string): CaseVerdict | undefined =>
  proposal.verdicts.findLast((each) => each.case === id && each.digest === proposal.digest);

function CaseResult({ proposal, id, at }: { proposal: ToolProposal; id: string; at: number }) {
  const result = proposal.checks?.report?.cases[at];
  const verdict = lastVerdict(proposal, id);
  const isManual = proposal.body?.testCases[at]?.reply == null;
  if (isManual) {
    if (verdict === undefined) return <span className="state awaiting_approval">a person looks at it</span>;
    return <span className={`state ${verdict.passed ? "done" : "failed"}`}>{verdict.passed ? "a person passed it" : "a person failed it"}</span>;
  }
  if (result === undefined) return <span className="state">not checked</span>;
  return <span className={`state ${result.right === true ? "done" : "failed"}`}>{result.right === true ? "right" : "wrong"}</span>;
}

function Broken({ proposal, at }: { proposal: ToolProposal; at: number }) {
  const result = proposal.checks?.report?.cases[at];
  if (result === undefined || result.broken.length === 0) {
    return result?.right === false ? <p className="bad">The reply meets every expectation, and should break one.</p> : null;
  }
  return (
    <>
      <p className={result.right === false ? "bad" : "faint"}>The reply breaks{result.right === true ? ", as it should" : ""}:</p>
      <ul className="findings">
        {result.broken.map((each) => (
          <li key={each} className="wrap">
            <Verbatim text={each} />
          </li>
        ))}
      </ul>
    </>
  );
}

function CaseTexts({ one, path, findings }: { one: ProposalCase; path: string; findings: Finding[] }) {
  const parts: [name: keyof ProposalCase, label: string][] = [
    ["check", "What a person looks at"],
    ["given", "Given"],
    ["reply", "Reply"],
    ["expect", "Expected of the reply"],
  ];
  return (
    <dl className="proposed">
      {parts.map(([name, label]) =>
        one[name] == null ? null : (
          <div key={name}>
            <dt>{label}</dt>
            <dd>
              {typeof one[name] === "string" ? (
                <ProposedText path={`${path}.${name}`} text={String(one[name])} findings={findings} />
              ) : (
                <ProposedValue path={`${path}.${name}`} value={one[name]} findings={findings} />
              )}
            </dd>
          </div>
        ),
      )}
    </dl>
  );
}

interface VerdictProps {
  proposal: ToolProposal;
  id: string;
  isCurrent: boolean;
  reload: () => void;
}

function Verdict({ proposal, id, isCurrent, reload }: VerdictProps) {
  const session = useSession();
  const { sending, problem, send } = useSend(reload);
  const [note, setNote] = useState("");
  const field = useId();
  const verdict = lastVerdict(proposal, id);
  const judge = async (passed: boolean) => {
    const taken = await send(passed ? "pass" : "fail", () => verdictPost(proposal.id, proposal.digest, { case: id, passed, note }));
    if (taken) setNote("");
  };
  const mayJudge = isUser(session) || isChief(session);
  return (
    <>
      {verdict !== undefined && (
        <p className={`outcome ${verdict.passed ? "approve" : "reject"}`} role="status">
          {verdict.passed ? "Passed" : "Failed"} by <Name text={verdict.by} />, <Moment ns={verdict.at_ms * 1e6} />:{" "}
          <q dir="auto">
            <Verbatim text={verdict.note} />
          </q>
        </p>
      )}
      {isOpen(proposal) && !mayJudge && verdict === undefined && <p className="faint">A user or the Chief records the verdict.</p>}
      {isOpen(proposal) && mayJudge && (
        <div className="decision">
          <label htmlFor={field}>Note: what you looked at, and what you saw</label>
          <textarea id={field} dir="auto" rows={2} maxLength={4000} value={note} onChange={(event) => setNote(event.target.value)} />
          {problem !== "" && <ErrorNote message={problem} />}
          <div className="buttons">
            <button type="button" disabled={sending !== undefined || note.trim() === "" || !isCurrent} onClick={() => judge(true)}>
              {sending === "pass" ? "Recording …" : "It passes"}
            </button>
            <button type="button" disabled={sending !== undefined || note.trim() === "" || !isCurrent} onClick={() => judge(false)}>
              {sending === "fail" ? "Recording …" : "It fails"}
            </button>
            {note.trim() === "" && <span className="faint">A verdict needs a note.</span>}
          </div>
        </div>
      )}
    </>
  );
}
