/** What the checks say about a proposal: findings, platform checks, and a button that runs them again. */
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { checksPost, type CheckReport, type Finding, type ToolProposal } from "../../sdk/review";
import { useSession } from "../../session";
import { fieldId, FindingText } from "./proposed-text";
import { isOpen, mayRunChecks } from "./review-words";
import { useSend } from "../../parts/use-send";

/** So many characters of the passage of a finding are in its line. */
const SHORT = 120;

export function ChecksReport({ proposal, reload }: { proposal: ToolProposal; reload: () => void }) {
  const session = useSession();
  const { sending, problem, send } = useSend(reload);
  const { checks } = proposal;
  const report = checks?.report ?? null;
  return (
    <section className="card" aria-labelledby="checks">
      <div className="title-line">
        <h2 id="checks">Checks</h2>
        <span role="status" className={checks === null || checks.passed ? "state" : "state failed"}>
          {sending !== undefined ? "running" : checks === null ? "have not run on this revision" : checks.passed ? "no known pattern" : "did not pass"}
        </span>
        {checks !== null && (
          <span className="faint">
            <Moment ns={checks.at_ms * 1e6} />
          </span>
        )}
        {isOpen(proposal) && mayRunChecks(session) && (
          <button type="button" disabled={sending !== undefined} onClick={() => send("checks", () => checksPost(proposal.id))}>
            {sending !== undefined ? "Running …" : checks === null ? "Run the checks" : "Run again"}
          </button>
        )}
      </div>
      {sending !== undefined && <progress aria-label="The checks run" />}
      {problem !== "" && <ErrorNote message={problem} />}
      {checks?.error != null && <ErrorNote title="The checks could not run." message={checks.error} />}
      {report !== null && (
        <>
          <Findings found={report.static} body={proposal.body} />
          <p className="faint">
            The checks look for known patterns. What other words, another language or a hint between the lines would make a model do, they can’t see: no check
            can tell that a text is safe, so read it.
          </p>
          <PlatformChecks checks={report.platform} />
        </>
      )}
    </section>
  );
}

function Findings({ found, body }: { found: Finding[]; body: ToolProposal["body"] }) {
  if (found.length === 0) return <p className="faint">No known pattern was found in the texts.</p>;
  const blocks = found.filter((each) => each.severity === "block").length;
  return (
    <>
      <h3>
        Found in the texts: {blocks === 1 ? "1 blocks" : `${blocks} block`} an approval, {found.length - blocks} to look at
      </h3>
      <ul className="findings">
        {found.map((each, place) => {
          const passage = passageOf(each, body);
          return (
            <li key={place}>
              <FindingText finding={each} />{" "}
              <span className="faint">
                in <a href={`#${fieldId(each.field)}`}>{each.field}</a>
              </span>
              {passage !== "" && (
                <>
                  {" "}
                  <q dir="auto" className="wrap">
                    <Verbatim text={passage} />
                  </q>
                </>
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}

/** Returns the passage of a finding; empty if it is about more than a passage. */
function passageOf(finding: Finding, body: ToolProposal["body"]): string {
  const text = finding.field
    .split(/[.[\]]+/)
    .filter((name) => name !== "")
    .reduce<unknown>((value, name) => (value as Record<string, unknown> | null)?.[name], body);
  if (typeof text !== "string") return "";
  const letters = Array.from(text).slice(finding.start, finding.end);
  return letters.length > SHORT ? `${letters.slice(0, SHORT).join("")}…` : letters.join("");
}

function PlatformChecks({ checks }: { checks: CheckReport["platform"] }) {
  const failed = checks.filter((each) => !each.passed).length;
  return (
    <details open={failed > 0}>
      <summary>
        {checks.length - failed} of {checks.length} platform checks hold
      </summary>
      <ul className="findings">
        {checks.map((each) => (
          <li key={each.id}>
            <span className={each.passed ? "state" : "state failed"}>{each.passed ? "holds" : "failed"}</span> <code>{each.id}</code> {each.says}
            {each.problem !== "" && (
              <p className="bad">
                <Verbatim text={each.problem} />
              </p>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}
