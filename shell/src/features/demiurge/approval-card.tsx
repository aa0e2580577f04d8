/** The card of a call that waits for a person. The chat and the inbox show the same one. */
import { useEffect, useId, useRef, useState } from "react";
import { Arguments } from "../../parts/arguments";
import { Duration, Moment } from "../../parts/time";
import { ErrorNote } from "../../parts/notes";
import { Verbatim } from "../../parts/verbatim";
import type { Approval } from "../../sdk";
import { isExpired, useApprovals, useNow } from "./approvals";
import { CardHeading } from "./card-heading";
import { DecisionForm } from "./decision-form";
import { ChangedArguments, Outcome } from "./outcome";
import { ServerMarks } from "./server-marks";
import { WriteDiff } from "./write-diff";

interface CardProps {
  approval: Approval;
  /** The inbox says which chat a call is of; in the chat itself this is known. */
  showChat?: boolean;
  /** Called once this person's decision is recorded. */
  onDecided?: () => void;
}

export function ApprovalCard({ approval, showChat = false, onDecided }: CardProps) {
  const { decisions, live } = useApprovals();
  const now = useNow();
  const decision = approval.id !== null ? decisions.get(approval.id) : undefined;
  const waits = live.data?.approvals.some((each) => each.id === approval.id) ?? true;
  const expired = isExpired(approval, now);
  const [wholeSeen, setWholeSeen] = useState(false);
  const card = useRef<HTMLElement>(null);
  const title = useId();

  return (
    <section className="card approval" ref={card} aria-labelledby={title} data-approval={approval.id} tabIndex={-1}>
      <CardHeading id={title} approval={approval} showChat={showChat}>
        wants to run <code>{approval.tool}</code>.
      </CardHeading>
      <Description text={approval.card.description} />
      <p className="effect">{approval.card.effect}</p>
      {approval.server != null && <ServerMarks server={approval.server} trust={approval.trust} />}
      {approval.damaged !== null && (
        <ErrorNote title="This call cannot be shown whole, so it cannot be approved." message={approval.damaged} />
      )}
      {approval.tool === "workspace__write" && approval.arguments_json !== null && (
        <WriteDiff argumentsJson={approval.arguments_json} />
      )}
      {approval.arguments_json !== null && (
        <Arguments
          json={approval.arguments_json}
          label={decision?.changedCall === undefined ? "Arguments" : "Proposed arguments"}
          onWholeSeen={() => setWholeSeen(true)}
        />
      )}
      {approval.card.why !== "" && (
        <p className="effect" data-tainted={approval.tainted !== undefined || undefined}>
          <Verbatim text={approval.card.why} />
        </p>
      )}
      <details>
        <summary>Rule, digest and expiry</summary>
        <dl className="facts">
          <dt>Rule</dt>
          <dd>
            <Rules approval={approval} />
          </dd>
          {approval.asked_ns !== null && (
            <>
              <dt>Waits since</dt>
              <dd>
                <Moment ns={approval.asked_ns} /> (<Duration ms={now - approval.asked_ns / 1e6} />)
              </dd>
            </>
          )}
          {decision === undefined && !expired && waits && (
            <>
              <dt>Expires</dt>
              <dd>
                <Moment ns={approval.expires_ns} />, in{" "}
                <span data-countdown>
                  <Duration ms={approval.expires_ns / 1e6 - now} />
                </span>
              </dd>
            </>
          )}
        </dl>
      </details>
      {decision === undefined && !expired && waits && <SpokenCountdown ms={approval.expires_ns / 1e6 - now} />}
      {decision !== undefined ? (
        <>
          <Outcome decision={decision} now={now} showEnd />
          {decision.changedCall !== undefined && (
            <ChangedArguments call={decision.changedCall} proposedJson={approval.arguments_json} />
          )}
        </>
      ) : expired ? (
        <p className="outcome" role="status">
          Expired at <Moment ns={approval.expires_ns} />; the model was told.
        </p>
      ) : waits ? (
        <DecisionForm approval={approval} wholeSeen={wholeSeen} card={card} onDecided={onDecided} />
      ) : (
        <p className="outcome" role="status">
          This call does not wait any more.
        </p>
      )}
    </section>
  );
}

/** The tool's own words: the first line, as at the terminal, and the whole on demand. */
function Description({ text }: { text: string }) {
  const [first = "", ...rest] = text.split("\n");
  if (first === "") return null;
  if (rest.length === 0) return <p className="wrap" dir="auto"><Verbatim text={first} /></p>;
  return (
    <details>
      <summary className="wrap" dir="auto">
        <Verbatim text={first} />
      </summary>
      <pre dir="auto">
        <Verbatim text={rest.join("\n").trim()} />
      </pre>
    </details>
  );
}

const calls = ({ effect, tool }: Record<string, unknown>) =>
  effect === undefined ? `every call of ${tool}` : `every call with the effect ${effect}`;

/** The lines of a tool policy in words. The policy may have changed since the call began to wait. */
const RULES: Record<string, (rule: Record<string, unknown>) => string> = {
  require_approval_for_effects: (rule) => `${calls(rule)} is asked for`,
  require_approval_for_tools: (rule) => `${calls(rule)} is asked for`,
  allowed_tools: (rule) => `${calls(rule)} is allowed by now`,
  denied_effects: (rule) => `${calls(rule)} is denied by now`,
  denied_tools: (rule) => `${calls(rule)} is denied by now`,
  when_tainted: (rule) => `${calls(rule)} is asked for in a turn that has read untrusted text`,
};

/** A line of the tool policy in words; a line of another kind as it is written in the policy. */
function ruleText(rule: Record<string, unknown>): string {
  const words = RULES[String(rule.rule)];
  if (words === undefined) return JSON.stringify(rule);
  return words(rule) + (rule.rule_name === undefined ? "" : ` (rule ${rule.rule_name})`);
}

function Rules({ approval }: { approval: Approval }) {
  return (
    <>
      <span className="wrap" title={JSON.stringify(approval.rules)}>
        {approval.rules.map(ruleText).join("; ") || "the tool policy"}
      </span>{" "}
      <code className="faint" title={`Digest of the rules: ${approval.rule_digest}`}>
        {approval.rule_digest.slice(0, 19)}…
      </code>
    </>
  );
}

/** A screen reader hears that time runs out at an hour, at five minutes and at the end, not each second. */
function SpokenCountdown({ ms }: { ms: number }) {
  const said = ms <= 300_000 ? "Less than 5 minutes left." : ms <= 3_600_000 ? "Less than an hour left." : "";
  return (
    <span className="unseen" role="status">
      {said}
    </span>
  );
}

/** J and K go to the next and the former call, O opens the raw arguments, A and R move the focus to a button; only Enter
 * decides. Nothing happens while somebody types. */
export function useCardKeys(onStep: (step: 1 | -1) => void): void {
  const go = useRef(onStep);
  go.current = onStep;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, [contenteditable]")) return;
      const current = document.activeElement?.closest<HTMLElement>("[data-approval]") ?? null;
      if (event.key === "j") go.current(1);
      else if (event.key === "k") go.current(-1);
      else if (event.key === "o") current?.querySelector<HTMLElement>(".arguments summary")?.click();
      else if (event.key === "a" || event.key === "r") current?.querySelector<HTMLElement>(`[data-key=${event.key}]`)?.focus();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
