/** A call that waits as one line of the inbox: tool, first argument, who asks, and how long it may still wait. */
import { parseObject } from "../../parts/exact-json";
import { Name } from "../../parts/name";
import { durationText } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import type { Approval } from "../../sdk";
import type { Decision } from "./decisions";

/** So many characters of the first argument are in a line; the card has the whole. */
const SHORT = 80;
/** What expires later than in a hundred years does not expire. */
const FOREVER_MS = 100 * 365 * 86_400_000;

/** Returns the first argument of a call in a few characters; empty without arguments, or where they are not seen. */
export function firstArgument({ arguments_json }: Approval): string {
  const [first] = Object.entries((arguments_json === null ? null : parseObject(arguments_json)) ?? {});
  if (first === undefined) return "";
  const value = typeof first[1] === "string" ? first[1] : JSON.stringify(first[1]);
  return `${first[0]}: ${value.length > SHORT ? `${value.slice(0, SHORT)}…` : value}`;
}

const DECIDED: Partial<Record<Decision["verdict"], string>> = { edit: "Changed", reject: "Rejected", answer: "Answered", end: "Ended" };

interface InboxRowProps {
  approval: Approval;
  decision: Decision | undefined;
  waits: boolean;
  now: number;
  isChosen: boolean;
  onChoose: () => void;
}

export function InboxRow({ approval, decision, waits, now, isChosen, onChoose }: InboxRowProps) {
  const first = firstArgument(approval);
  return (
    <button type="button" data-item className="inbox-row" aria-current={isChosen ? "true" : undefined} onClick={onChoose}>
      <span className="inbox-call">
        <code>{approval.tool}</code>{" "}
        {first !== "" && (
          <bdi>
            <Verbatim text={first} />
          </bdi>
        )}
      </span>
      <span className="faint">{askedText(approval, now)}</span>
      <StandingOf approval={approval} decision={decision} waits={waits} now={now} />
    </button>
  );
}

/** Who asks for the call, in which chat, and since when: as a sentence. */
function askedText(approval: Approval, now: number) {
  return (
    <>
      Asked for by{" "}
      {approval.chat_id === null ? (
        <bdi>{approval.card.asker}</bdi>
      ) : (
        <>
          <Name inButton text={approval.actor} /> in <bdi>{approval.title || approval.chat_id}</bdi>
        </>
      )}
      {approval.asked_ns !== null && `, ${durationText(now - approval.asked_ns / 1e6)} ago`}.
    </>
  );
}

function StandingOf({ approval, decision, waits, now }: Omit<InboxRowProps, "isChosen" | "onChoose">) {
  if (decision !== undefined) {
    return (
      <span className="faint">
        {DECIDED[decision.verdict] ?? "Approved"} by <Name inButton text={decision.by} />
      </span>
    );
  }
  const left = approval.expires_ns / 1e6 - now;
  if (left <= 0) return <span className="state failed">Expired</span>;
  if (!(left < FOREVER_MS)) return <span className="faint">Does not expire</span>;
  if (!waits) return <span className="faint">Does not wait any more</span>;
  return <span className={left < 3_600_000 ? "state running" : "faint"}>{durationText(left)} left</span>;
}
