/** The automatic test cases of a proposal on a real model: k of n, and what each reply lacks. It is advice alone. */
import { Verbatim } from "../../parts/verbatim";
import { type ModelRun, type ToolProposal, tryCasesPost } from "../../sdk/review";
import { isUser, useSession } from "../../session";
import { ModelRuns, type ModelRunWords } from "./model-run";
import { isChief, isOpen } from "./review-words";

const WORDS: ModelRunWords = {
  does: "answers the test cases",
  askFirst: "Try the test cases on a model",
  askAgain: "Try them on a model again",
  button: "Try the test cases",
  note: "What comes of it is advice, and no approval needs it.",
  failed: "The last try on a model failed; it was asked",
};

interface CasesOnModelProps {
  proposal: ToolProposal;
  isCurrent: boolean;
  reload: () => void;
}

export function CasesOnModel({ proposal, isCurrent, reload }: CasesOnModelProps) {
  const session = useSession();
  const run = proposal.model_runs.cases;
  const hasCases = proposal.body?.testCases.some((each) => each.reply != null) === true;
  const mayAsk = hasCases && isOpen(proposal) && (isUser(session) || isChief(session));
  if (run === undefined && !mayAsk) return null;
  return (
    <section className="card" aria-labelledby="cases-on-model">
      <h3 id="cases-on-model">The test cases on a model</h3>
      {run !== undefined && run.results.length > 0 && <Results run={run} />}
      <ModelRuns
        proposal={proposal}
        kind="cases"
        words={WORDS}
        mayAsk={mayAsk}
        post={tryCasesPost}
        isCurrent={isCurrent}
        reload={reload}
      />
    </section>
  );
}

function Results({ run }: { run: ModelRun }) {
  return (
    <>
      <p>
        {run.results.filter((each) => each.right).length} of {run.cases.length} right
        {run.results.length < run.cases.length && `, ${run.results.length} tried`}
      </p>
      <ul className="findings">
        {run.results.map((each) => (
          <li key={each.case} data-result={each.case}>
            <Verbatim text={each.case} /> <span className={`state ${each.right ? "done" : "failed"}`}>{each.right ? "right" : "wrong"}</span>
            {each.broken.map((problem) => (
              <p key={problem} className="wrap bad">
                <Verbatim text={problem} />
              </p>
            ))}
            <details>
              <summary>The model's reply</summary>
              <pre dir="auto" className="wrap">
                <Verbatim text={each.reply} />
              </pre>
            </details>
          </li>
        ))}
      </ul>
    </>
  );
}
