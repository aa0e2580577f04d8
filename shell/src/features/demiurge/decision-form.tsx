/** The part of an approval card that decides: a reason, the buttons, and two second steps: to change the arguments, and
 * to allow further calls. */
import { type RefObject, useId, useRef, useState } from "react";
import { ErrorNote } from "../../parts/notes";
import { ApiError, type Approval, approvalPost, journalGet, type NewRule, rulePost, sentence } from "../../sdk";
import { mayDecide, useSession } from "../../session";
import { AllowForm } from "./allow-form";
import { useApprovals } from "./approvals";
import { decisionInError } from "./decisions";
import { EditArguments } from "./edit-arguments";

interface FormProps {
  approval: Approval;
  wholeSeen: boolean;
  card: RefObject<HTMLElement | null>;
  onDecided?: () => void;
}

type Step = "decide" | "reject" | "edit" | "allow";
type Sending = "approve" | "reject" | "edit" | "allow";

export function DecisionForm({ approval, wholeSeen, card, onDecided }: FormProps) {
  const session = useSession();
  const { live, addDecisions, addDecision } = useApprovals();
  const [reason, setReason] = useState("");
  const [step, setStep] = useState<Step>("decide");
  const [sending, setSending] = useState<Sending>();
  const [problem, setProblem] = useState("");
  const busy = useRef(false);
  const buttons = useRef<HTMLDivElement>(null);
  const field = useId();

  if (!mayDecide(session)) return <p className="outcome">Somebody with the role approver decides this.</p>;
  if (approval.withheld === true) {
    return <p className="outcome">The policy names others who decide this call. Your role does not see its arguments.</p>;
  }

  const submit = async (kind: Sending, send: (id: string) => Promise<unknown>) => {
    if (busy.current || approval.id === null) return;
    busy.current = true;
    setSending(kind);
    setProblem("");
    try {
      await send(approval.id);
      focusNextCard(card.current);
      onDecided?.();
    } catch (error) {
      const first = decisionInError(error);
      if (first !== null) addDecision(approval.id, first);
      else setProblem(await whatHappened(approval, error, addDecisions));
    }
    live.reload();
    busy.current = false;
    setSending(undefined);
  };
  const decide = (decision: "approve" | "reject") => submit(decision, (id) => approvalPost(id, decision, reason));
  const approveChanged = (json: string) => submit("edit", (id) => approvalPost(id, "approve", reason, json));
  const allow = (rule: Omit<NewRule, "reason">) => submit("allow", (id) => rulePost(id, { ...rule, reason }));
  const back = () => {
    setStep("decide");
    setProblem("");
    requestAnimationFrame(() => buttons.current?.querySelector<HTMLElement>(`[data-step=${step}]`)?.focus());
  };
  const isReadable = wholeSeen && approval.damaged === null && approval.arguments_json !== null;

  return (
    <div className="decision">
      {problem !== "" && <ErrorNote message={problem} />}
      {step === "edit" && approval.arguments_json !== null && (
        <EditArguments
          tool={approval.tool}
          proposedJson={approval.arguments_json}
          sending={sending === "edit"}
          onApprove={approveChanged}
          onBack={back}
        />
      )}
      {step === "allow" && approval.arguments_json !== null && (
        <AllowForm
          approval={approval}
          argumentsJson={approval.arguments_json}
          sending={sending === "allow"}
          onAllow={allow}
          onBack={back}
        />
      )}
      {step === "reject" && (
        <>
          <label htmlFor={field}>Reason (the model and every viewer read it)</label>
          <textarea id={field} autoFocus dir="auto" rows={2} maxLength={2000} value={reason} onChange={(e) => setReason(e.target.value)} />
          <div className="buttons">
            <button type="button" className="danger" disabled={sending !== undefined} onClick={() => decide("reject")}>
              {sending === "reject" ? "Rejecting …" : "Reject this call"}
            </button>
            <button type="button" disabled={sending !== undefined} onClick={back}>
              Back
            </button>
          </div>
        </>
      )}
      {step === "decide" && (
        <div className="buttons" ref={buttons}>
          <button type="button" data-key="r" data-step="reject" disabled={sending !== undefined} onClick={() => setStep("reject")}>
            Reject
          </button>
          <button
            type="button"
            data-key="a"
            className="primary"
            disabled={sending !== undefined || !isReadable}
            onClick={() => decide("approve")}
          >
            {sending === "approve" ? "Approving …" : "Approve this call"}
          </button>
          <button
            type="button"
            data-step="edit"
            className="quiet"
            disabled={sending !== undefined || !isReadable}
            onClick={() => setStep("edit")}
          >
            Change arguments
          </button>
          {approval.chat_id !== null && approval.tainted === undefined && (
            <button
              type="button"
              data-step="allow"
              className="quiet"
              disabled={sending !== undefined || !isReadable}
              onClick={() => setStep("allow")}
            >
              Allow in this chat
            </button>
          )}
          {!wholeSeen && approval.damaged === null && <span className="faint">Read the arguments to their end first.</span>}
        </div>
      )}
    </div>
  );
}

/** Asks the server before it says that a decision failed: the answer may have been lost, or somebody was first. */
async function whatHappened(
  approval: Approval,
  error: unknown,
  addDecisions: ReturnType<typeof useApprovals>["addDecisions"],
): Promise<string> {
  try {
    const kinds = ["approval", "approval_rule", "decision"];
    const pages = await Promise.all(kinds.map((kind) => journalGet({ unit: approval.unit, kind, limit: 1000 })));
    const records = pages.flatMap((page) => page.records);
    addDecisions(records);
    if (records.some((record) => record.kind !== "approval_rule" && record.body?.intent === approval.id)) return "";
  } catch {
    return `${sentence(error)} The decision is not known to have been taken; look again when the server is back.`;
  }
  if (error instanceof ApiError && error.code === "no_approval") return "This call does not wait any more.";
  return sentence(error);
}

function focusNextCard(from: HTMLElement | null): void {
  const cards = [...document.querySelectorAll<HTMLElement>("[data-approval]")];
  const place = from === null ? -1 : cards.indexOf(from);
  const next = cards.slice(place + 1).find((each) => each.querySelector("[data-key]") !== null) ?? from;
  next?.focus();
}
