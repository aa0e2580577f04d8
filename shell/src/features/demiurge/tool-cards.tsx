/** Cards of calls. A tool with a card of its own is named in `TOOL_CARDS`; all others have `ToolFallback`. */
import type { ToolCallMessagePartProps } from "@assistant-ui/react";
import type { ReactNode } from "react";
import { useCallProgress } from "../../live/stream";
import { Arguments } from "../../parts/arguments";
import { hasRun, stateText } from "../../parts/call-state";
import { TaintTag } from "../../parts/taint";
import { durationText } from "../../parts/time";
import { ToldResult } from "../../parts/told-result";
import { Verbatim } from "../../parts/verbatim";
import { blobPath } from "../../sdk";
import { ApprovalCard } from "./approval-card";
import { useApprovals } from "./approvals";
import { useChat } from "./chat-context";
import { CHAT, type CallFacts } from "./chat-data";
import { ChangedArguments, Outcome, UsedArguments } from "./outcome";
import { InputCard } from "./input-card";
import { ASK_USER, AskUserCard } from "./question-card";
import { CallProgress, ResultParts } from "./result-parts";
import { WriteDiff } from "./write-diff";

export function ToolFallback(props: ToolCallMessagePartProps) {
  return <ToolCard {...props} />;
}

function WorkspaceWriteCard(props: ToolCallMessagePartProps) {
  const facts = props.artifact as CallFacts;
  return (
    <ToolCard {...props}>
      {facts.argumentsJson !== null && <WriteDiff argumentsJson={facts.argumentsJson} />}
    </ToolCard>
  );
}

export const TOOL_CARDS = { workspace__write: WorkspaceWriteCard, [ASK_USER]: AskUserCard };

function ToolCard({ toolName, artifact, children }: ToolCallMessagePartProps & { children?: ReactNode }) {
  const facts = artifact as CallFacts;
  const { approvals, tools, times, chatId } = useChat();
  const { decisions, now } = useApprovals();
  const asked = facts.state === "running" ? approvals.find((each) => each.tool_call_id === facts.callId) : undefined;
  const time = times.get(facts.callId);
  const decision = time !== undefined ? decisions.get(time.intent) : undefined;
  const effect = tools.get(toolName)?.effect;
  const reported = useCallProgress(`${CHAT}/${chatId}`, facts.callId);

  if (asked !== undefined) return asked.input != null ? <InputCard approval={asked} /> : <ApprovalCard approval={asked} />;
  const label = decision?.changedCall === undefined && facts.proposedJson === null ? "Arguments" : "Proposed arguments";
  const state = facts.state === "running" && time?.waits === true ? "waiting" : facts.state;
  const changedBy = facts.changedBy || (decision?.verdict === "edit" ? decision.by : "");
  const ran = hasRun(state) && time?.ended_ns != null ? durationText((time.ended_ns - time.began_ns) / 1e6) : "";
  return (
    <section className={`card tool ${state}`} aria-label={`Call of ${toolName}`}>
      <header>
        <code>{toolName}</code>
        <span className={`state ${state}`}>{stateText(state, state === "rejected" ? decision?.by : undefined)}</span>
        {changedBy !== "" && <span className="tag">{stateText("changed", changedBy)}</span>}
        {effect !== undefined && <span className="tag">{effect.replaceAll("_", " ")}</span>}
        <TaintTag tools={facts.tainted} />
        {facts.replayed && (
          <span className="tag" title="An equal call ran before; its recorded result was used, and nothing ran again.">
            replayed from the ledger
          </span>
        )}
        {ran !== "" && <span className="faint">{ran}</span>}
      </header>
      {decision !== undefined && <Outcome decision={decision} now={now()} />}
      {state === "running" && reported !== undefined && <CallProgress {...reported} />}
      {children}
      {facts.state === "done" && <ResultParts view={facts.result} />}
      {facts.argumentsJson === null ? (
        <p className="faint">Your role does not see the arguments.</p>
      ) : (
        <details>
          <summary>{label}</summary>
          <Arguments json={facts.proposedJson ?? facts.argumentsJson} label={label} />
        </details>
      )}
      {facts.argumentsJson !== null &&
        (facts.proposedJson !== null ? (
          <UsedArguments json={facts.argumentsJson} proposedJson={facts.proposedJson} by={facts.changedBy} />
        ) : (
          decision?.changedCall !== undefined && (
            <ChangedArguments call={decision.changedCall} proposedJson={facts.argumentsJson} />
          )
        ))}
      {facts.state === "rejected" && decision !== undefined ? null : facts.errorCode !== null ? (
        <p className={hasRun(facts.state) ? "problem" : "faint"} dir="auto">
          <code>{facts.errorCode}</code> {facts.message}
        </p>
      ) : (
        facts.state === "done" && <Result facts={facts} />
      )}
    </section>
  );
}

/** The result of a call: what the model was told and the value, for whoever may see both; and the redacted result,
 * which is all that everybody else sees. */
function Result({ facts }: { facts: CallFacts }) {
  if (facts.told === null) return <RedactedResult facts={facts} />;
  const { content, bytes, value, valueBytes } = facts.told;
  return (
    <>
      <ToldResult
        content={content}
        cut={bytes !== null && <>The first {content.length} characters of {bytes} bytes.</>}
        value={value}
        valueCut={valueBytes !== null && <>The value has {valueBytes} bytes and is not shown here.</>}
      />
      <RedactedResult facts={facts} />
    </>
  );
}

/** What the redaction of the tool lets everybody see. A long one is cut, and says so. */
function RedactedResult({ facts: { result, cut } }: { facts: CallFacts }) {
  const text = cut !== null ? cut.head : typeof result === "string" ? result : result == null ? "" : JSON.stringify(result, null, 2);
  if (isEmpty(result) && cut === null) return <p className="faint">The redacted result, which everybody else sees, is empty.</p>;
  return (
    <details>
      <summary>Redacted result</summary>
      <pre dir="auto">
        <Verbatim text={text} />
      </pre>
      {cut !== null && (
        <p className="faint">
          The first {cut.head.length} characters of {cut.bytes} bytes.{" "}
          {cut.ref !== null && (
            <a href={blobPath(cut.ref)} download>
              Download all
            </a>
          )}
        </p>
      )}
    </details>
  );
}

function isEmpty(result: unknown): boolean {
  return result == null || ["{}", '{"message":""}', '""'].includes(JSON.stringify(result));
}
