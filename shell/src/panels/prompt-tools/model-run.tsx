/** A model that is asked about a proposal: asking one, what it does meanwhile, and what came of it. */
import { useState } from "react";
import { Name } from "../../parts/name";
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import type { ModelRun, ToolProposal } from "../../sdk/review";
import { useSession } from "../../session";
import { useSend } from "../../parts/use-send";

/** What the page says of one kind of run. */
export interface ModelRunWords {
  /** What the model does: `The model m ...`. */
  does: string;
  askFirst: string;
  askAgain: string;
  button: string;
  /** What the run is for, after the sentence that says where the proposal goes. */
  note: string;
  failed: string;
}

interface ModelRunsProps {
  proposal: ToolProposal;
  kind: "review" | "cases";
  words: ModelRunWords;
  mayAsk: boolean;
  post: (id: string, digest: string, model?: string) => Promise<unknown>;
  isCurrent: boolean;
  reload: () => void;
}

export function ModelRuns({ proposal, kind, words, mayAsk, post, isCurrent, reload }: ModelRunsProps) {
  const session = useSession();
  const { sending, problem, send } = useSend(reload);
  const [model, setModel] = useState(session.model);
  const { id, digest } = proposal;
  const run = proposal.model_runs[kind];
  const isGoingOn = run?.status === "running";
  const isRunning = sending !== undefined || isGoingOn;
  const doing = words.does;
  return (
    <>
      {isRunning && (
        <div className="column" role="status">
          <p>
            The model <bdi>{isGoingOn ? run.model : model}</bdi> {doing}.
          </p>
          {isGoingOn && run.cases.length > 0 ? (
            <progress aria-label={`The model ${doing}`} max={run.cases.length} value={run.results.length} />
          ) : (
            <progress aria-label={`The model ${doing}`} />
          )}
        </div>
      )}
      {run !== undefined && !isGoingOn && <LastRun run={run} failed={words.failed} isOfThis={run.digest === digest} />}
      {mayAsk && !isRunning && (
        <details>
          <summary>{run === undefined ? words.askFirst : words.askAgain}</summary>
          <form
            className="decision"
            onSubmit={(event) => {
              event.preventDefault();
              void send("ask", () => post(id, digest, model.trim() === session.model ? undefined : model.trim()));
            }}
          >
            <p className="faint">
              The proposal is sent to {session.provider}. {words.note}
            </p>
            <label>
              Model <input dir="ltr" maxLength={256} value={model} onChange={(event) => setModel(event.target.value)} />
            </label>
            <div className="buttons">
              <button type="submit" disabled={!isCurrent || model.trim() === ""}>
                {words.button}
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
function LastRun({ run, failed, isOfThis }: { run: ModelRun; failed: string; isOfThis: boolean }) {
  return (
    <p className="faint">
      {run.status === "failed" ? failed : "A model was asked"} by <Name text={run.by} />, <Moment ns={run.at_ms * 1e6} />:{" "}
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
