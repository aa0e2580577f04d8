/** The inbox: every call that waits, in all chats. What was decided while it was shown stays, and says by whom. */
import { useRef } from "react";
import { Empty, ErrorNote, Loading } from "../../parts/notes";
import { type Approval, sentence } from "../../sdk";
import { ApprovalCard, useCardKeys } from "./approval-card";
import { useApprovals } from "./approvals";
import { ASK_USER, QuestionCard } from "./question-card";

export default function ApprovalsPanel() {
  const { live, mayAsk } = useApprovals();
  const shown = useRef(new Map<string, Approval>());
  useCardKeys();
  for (const each of live.data?.approvals ?? []) shown.current.set(each.id ?? each.unit, each);
  const cards = [...shown.current.values()].sort(endsLater);

  return (
    <main className="page">
      <h1>Approvals</h1>
      {live.error !== undefined && <ErrorNote message={sentence(live.error)} onRetry={live.reload} />}
      {live.loading && <Loading label="Loading the calls that wait" />}
      {live.data !== undefined && live.data.approvals.length === 0 && (
        <Empty>{mayAsk ? "Nothing is waiting for you." : "Your role does not see calls that wait. An approver decides them."}</Empty>
      )}
      {cards.length > 0 && (
        <p className="faint wide-only">J and K: next and previous. O: raw JSON. A and R: to the button; Enter decides.</p>
      )}
      {cards.map((each) => {
        const Card = each.tool === ASK_USER ? QuestionCard : ApprovalCard;
        return <Card key={each.id ?? each.unit} approval={each} showChat />;
      })}
    </main>
  );
}

function endsLater(one: Approval, other: Approval): number {
  return one.expires_ns === other.expires_ns ? 0 : one.expires_ns < other.expires_ns ? -1 : 1;
}
