/** The decision on a proposal: what it still lacks, the buttons for those who may decide, and who decided. */
import { useEffect, useRef, useState } from "react";
import { Name } from "../../parts/name";
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { Link } from "../../router";
import { decisionPost, type IssueAction, type ToolProposal } from "../../sdk/review";
import { isUser, useSession } from "../../session";
import { ReviewActions } from "./review-actions";
import { DECIDED, isAuthor, isOpen, proposalHref } from "./review-words";
import { type Sending, useSend } from "../../parts/use-send";

interface DecisionProps {
  proposal: ToolProposal;
  wholeSeen: boolean;
  isCurrent: boolean;
  reload: () => void;
}

export function Decision({ proposal, wholeSeen, isCurrent, reload }: DecisionProps) {
  const session = useSession();
  const sending = useSend(reload);
  const outcome = useRef<HTMLDivElement>(null);
  const [isMine, setIsMine] = useState(false);
  const isOwn = isAuthor(session, proposal) || isUser(session);
  const isErased = proposal.body === null;
  const mayRevise = isOwn && !(isErased && proposal.kind === "delete") && (isOpen(proposal) || proposal.state === "stale");
  const waits = proposal.state === "chief_review" || proposal.state === "user_decision";

  // The button that had the focus is gone after a decision.
  useEffect(() => {
    if (isMine) outcome.current?.focus();
  }, [isMine, proposal.state]);
  const decide = async (action: IssueAction | "withdraw", reason: string, read = false) => {
    if (await sending.send(action, () => decisionPost(proposal.id, action, proposal.digest, reason, read))) setIsMine(true);
  };
  const lacks = isErased
    ? "Its text was erased, so it cannot be approved."
    : proposal.is_stale
      ? "Another version of the tool is live: have it revised."
      : proposal.missing.length > 0
        ? "It can be approved once nothing is lacking."
        : wholeSeen
          ? ""
          : "Read the proposal to its end first.";
  return (
    <section className="card decide" aria-labelledby="decision" ref={outcome} tabIndex={-1}>
      <h2 id="decision">Decision</h2>
      <Outcome proposal={proposal} />
      {isOpen(proposal) && proposal.missing.length > 0 && (
        <div className="column">
          <h3>It still lacks</h3>
          <ul className="lacking">
            {proposal.missing.map((each) => (
              <li key={each} className="wrap">
                <Verbatim text={each} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {waits && <ReviewActions digest={proposal.digest} lacks={lacks} isCurrent={isCurrent} sending={sending} onDecide={decide} />}
      {mayRevise && (
        <p>
          <Link href={`${proposalHref(proposal.id)}/revise`}>Revise this proposal</Link>
        </p>
      )}
      {isOpen(proposal) && isOwn && (
        <Withdraw isCurrent={isCurrent} sending={sending} onWithdraw={(reason) => decide("withdraw", reason)} showProblem={!waits} />
      )}
    </section>
  );
}

function Outcome({ proposal }: { proposal: ToolProposal }) {
  const { actor } = useSession();
  const { decision, outcome, state, version } = proposal;
  return (
    <>
      {decision !== null && (
        <p className={`outcome ${decision.verdict === "approve" ? "approve" : "reject"}`} role="status">
          {DECIDED[decision.verdict] ?? decision.verdict} {decision.by === actor ? "you" : <Name text={decision.by} />}
          {decision.read && ", who read the whole text"}, <Moment ns={decision.at_ms * 1e6} />
          {decision.reason !== "" && (
            <>
              :{" "}
              <q dir="auto">
                <Name text={decision.reason} />
              </q>
            </>
          )}
        </p>
      )}
      {state === "approving" && <p className="faint">The registry is taking it into the catalog.</p>}
      {state === "approved" && version !== null && (
        <p>It is in the catalog as version {version}, from the next message of each chat on.</p>
      )}
      {state === "returned" && <p className="faint">Its author revises it or withdraws it.</p>}
      {outcome !== null && (
        <p className="mark">
          <strong>{outcome.code}</strong>: <Verbatim text={outcome.message} />
        </p>
      )}
    </>
  );
}

interface WithdrawProps {
  isCurrent: boolean;
  sending: Sending;
  /** Whether the problem of a request is shown here. */
  showProblem: boolean;
  onWithdraw: (reason: string) => void;
}

/** Taking a proposal back, in two steps: it is over then. */
function Withdraw({ isCurrent, sending: { sending, problem }, showProblem, onWithdraw }: WithdrawProps) {
  const [reason, setReason] = useState("");
  return (
    <details>
      <summary>Withdraw this proposal</summary>
      <div className="decision">
        <label>
          Why (may be empty)
          <input dir="auto" maxLength={4000} value={reason} onChange={(event) => setReason(event.target.value)} />
        </label>
        {showProblem && problem !== "" && <ErrorNote message={problem} />}
        <div className="buttons">
          <button type="button" className="danger" disabled={sending !== undefined || !isCurrent} onClick={() => onWithdraw(reason)}>
            {sending === "withdraw" ? "Sending …" : "Withdraw it for good"}
          </button>
        </div>
      </div>
    </details>
  );
}
