/** A model that reviews in the place of the Chief of Staff: asking one, what it does meanwhile, and what came of it. */
import { useState } from "react";
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { askModelPost, type ModelRun, type ToolProposal } from "../../sdk/review";
import { useSession } from "../../session";
import { isChief, isUser } from "./review-words";
import { useSend } from "./use-send";

interface AskModelProps {
  proposal: ToolProposal;
  isCurrent: boolean;
  reload: () => void;
}

export function AskModel({ proposal, isCurrent, reload }: AskModelProps) {
  const session = useSession();
  const { sending, problem, send } = useSend(reload);
  const [model, setModel] = useState(session.model);
  const { id, digest, review, state } = proposal;
  const run = proposal.model_runs.review;
  const isRunning = sending !== undefined || run?.status === "running";
  const isReviewed = review !== null && review.kind !== "model";
  const mayAsk = (isUser(session) || isChief(session)) && (state === "chief_review" || state === "user_decision") && !isReviewed;
  return (
    <>
      {isRunning && (
        <div className="column" role="status">
          <p>
            The model <bdi>{run?.status === "running" ? run.model : model}</bdi> reads the proposal.
          </p>
          <progress aria-label="The model reads the proposal" />
        </div>
      )}
      {run !== undefined && run.status !== "running" && <LastRun run={run} isOfThis={run.digest === digest} />}
      {mayAsk && !isRunning && (
        <details>
          <summary>{run === undefined ? "Ask a model for a review" : "Ask a model again"}</summary>
          <form
            className="decision"
            onSubmit={(event) => {
              event.preventDefault();
              void send("ask", () => askModelPost(id, digest, model.trim() === session.model ? undefined : model.trim()));
            }}
          >
            <p className="faint">The proposal is sent to {session.provider}. What the model says is advice: a user decides.</p>
            <label>
              Model <input dir="ltr" maxLength={256} value={model} onChange={(event) => setModel(event.target.value)} />
            </label>
            <div className="buttons">
              <button type="submit" disabled={!isCurrent || model.trim() === ""}>
                Ask the model
              </button>
            </div>
          </form>
        </details>
      )}
      {problem !== "" && <ErrorNote message={problem} />}
    </>
  );
}

/** What came of the last run; that of another revision counts for nothing now. */
function LastRun({ run, isOfThis }: { run: ModelRun; isOfThis: boolean }) {
  return (
    <p className="faint">
      {run.status === "failed" ? "The last question to a model failed" : "A model was asked"} by <bdi>{run.by}</bdi>, <Moment ns={run.at_ms * 1e6} />:{" "}
      <bdi>{run.model}</bdi>, {run.requests === 1 ? "1 request" : `${run.requests} requests`}, {run.tokens.toLocaleString()} tokens, cost{" "}
      {run.cost_micros === null ? "unknown" : `$${(run.cost_micros / 1e6).toFixed(4)}`}
      {!isOfThis && ", about an earlier revision"}.
      {run.message !== null && (
        <span className="bad">
          {" "}
          <Verbatim text={run.message} /> ({run.code})
        </span>
      )}
    </p>
  );
}
