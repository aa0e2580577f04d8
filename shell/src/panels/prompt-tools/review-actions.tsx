/** Approve, Needs changes and Reject, with a reason. A proposal and an issue show the same. */
import { useId, useState } from "react";
import { ErrorNote } from "../../parts/notes";
import type { IssueAction } from "../../sdk/review";
import { isUser, useSession } from "../../session";
import { ACTIONS, isChief } from "./review-words";
import type { Sending } from "../../parts/use-send";

interface ReviewActionsProps {
  /** The digest of the revision that is decided on. */
  digest: string | null;
  /** Why an approval is not possible yet; empty if it is. */
  lacks: string;
  /** Whether the revision that is shown is the one that this person began to read. */
  isCurrent: boolean;
  sending: Sending;
  onDecide: (action: IssueAction, reason: string, read: boolean) => void;
}

export function ReviewActions({ digest, lacks, isCurrent, sending: { sending, problem }, onDecide }: ReviewActionsProps) {
  const session = useSession();
  const [reason, setReason] = useState("");
  // The tick is for one revision: another one has to be read again.
  const [digestRead, setDigestRead] = useState<string | null>(null);
  const hasRead = digest !== null && digestRead === digest;
  const field = useId();
  const why = useId();
  const actions: IssueAction[] = isUser(session) ? ["approve", "needs_changes", "reject"] : isChief(session) ? ["needs_changes"] : [];
  const isReasonless = reason.trim() === "";

  const hint = !isCurrent
    ? "Read the new revision first."
    : actions.includes("approve") && lacks !== ""
      ? lacks
      : actions.includes("approve") && !hasRead
        ? "An approval needs the tick: you have read the whole text."
      : isReasonless
        ? `${actions.includes("reject") ? "Needs changes and Reject need" : "Needs changes needs"} a reason.`
        : "";
  return (
    <div className="decision">
      {!actions.includes("approve") && <p className="faint">Only a user approves or rejects.</p>}
      {actions.length > 0 && (
        <>
          <label htmlFor={field}>Reason (its author and every reader see it)</label>
          <textarea id={field} dir="auto" rows={3} maxLength={4000} value={reason} onChange={(event) => setReason(event.target.value)} />
          {actions.includes("approve") && (
            <label className="given">
              <input type="checkbox" checked={hasRead} onChange={(event) => setDigestRead(event.target.checked ? digest : null)} /> I have read the whole text of the tool
              (recorded with an approval; no check can tell that it is safe)
            </label>
          )}
          {problem !== "" && <ErrorNote message={problem} />}
          <div className="buttons">
            {actions.map((action) => (
              <button
                key={action}
                type="button"
                className={action === "approve" ? "primary" : action === "reject" ? "danger" : undefined}
                aria-describedby={why}
                disabled={sending !== undefined || !isCurrent || (action === "approve" ? lacks !== "" || !hasRead : isReasonless)}
                onClick={() => onDecide(action, reason, hasRead)}
              >
                {sending === action ? "Sending …" : ACTIONS[action]}
              </button>
            ))}
          </div>
          <p id={why} className="faint">
            {hint}
          </p>
        </>
      )}
    </div>
  );
}
