/** The card of a question that the model asks a person (`core__ask_user`): in the chat, and in the inbox while it waits.
 * Question, choices and answer are text, and never rendered as Markdown or HTML. */
import type { ToolCallMessagePartProps } from "@assistant-ui/react";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Name } from "../../parts/name";
import { ErrorNote } from "../../parts/notes";
import { Duration, durationText } from "../../parts/time";
import { stateText } from "../../parts/call-state";
import { Verbatim } from "../../parts/verbatim";
import { answerPost, ApiError, type Approval, approvalPost, type Asked, blobText, sentence } from "../../sdk";
import { mayDecide, useSession } from "../../session";
import { useAnswering } from "./answering";
import { useApprovals, useNow } from "./approvals";
import { CardHeading } from "./card-heading";
import { useChat } from "./chat-context";
import type { CallFacts } from "./chat-data";
import type { Decision } from "./decisions";

export const ASK_USER = "core__ask_user";

const MAX_ANSWER = 8000;
const MAX_REASON = 2000;

interface CardProps {
  approval: Approval;
  /** The inbox says which chat asks; in the chat itself this is known. */
  showChat?: boolean;
}

/** A question that waits, or was answered while it was shown. */
export function QuestionCard({ approval, showChat = false }: CardProps) {
  const { decisions, live } = useApprovals();
  const now = useNow();
  const title = useId();
  const decision = approval.id !== null ? decisions.get(approval.id) : undefined;
  const waits = live.data?.approvals.some((each) => each.id === approval.id) ?? true;
  const asked = approval.asks;

  return (
    <section className="card approval question" aria-labelledby={title} data-approval={approval.id} tabIndex={-1}>
      <CardHeading id={title} approval={approval} showChat={showChat}>
        asks a question.
      </CardHeading>
      {approval.damaged !== null && (
        <ErrorNote title="This question cannot be shown whole, so it cannot be answered." message={approval.damaged} />
      )}
      {asked !== null ? (
        <Words text={asked.question} />
      ) : (
        approval.damaged === null && <p className="faint">Your role does not see this question.</p>
      )}
      {approval.asked_ns !== null && decision === undefined && waits && (
        <p className="faint">
          It has waited for <Duration ms={now - approval.asked_ns / 1e6} />, and does not expire.
        </p>
      )}
      {decision !== undefined ? (
        <Answered decision={decision} now={now} />
      ) : waits ? (
        asked !== null && <AnswerForm approval={approval} asked={asked} />
      ) : (
        <p className="outcome" role="status">
          This question does not wait any more.
        </p>
      )}
    </section>
  );
}

function Words({ text }: { text: string }) {
  return (
    <p className="plain question-text" dir="auto">
      <Verbatim text={text} />
    </p>
  );
}

/** The part that answers. */
function AnswerForm({ approval, asked }: { approval: Approval; asked: Asked }) {
  const session = useSession();
  const [text, setText] = useState("");
  const form = useRef<HTMLDivElement>(null);
  const { sending, problem, send } = useAnswering(approval, form);
  const field = useId();
  const choices = asked.choices ?? [];
  const takesWords = asked.allow_other || choices.length === 0;

  if (!mayDecide(session)) {
    return <p className="outcome">Somebody with the role approver answers this.</p>;
  }
  const answer = (words: string) => send(words, (id) => answerPost(id, words));
  const decline = () => send("", (id) => approvalPost(id, "reject", text.slice(0, MAX_REASON)));

  return (
    <div className="decision" ref={form}>
      {choices.length > 0 && (
        <div className="choices" role="group" aria-label="Choices">
          {choices.map((choice, index) => (
            <button
              key={choice}
              type="button"
              dir="auto"
              data-key={index === 0 ? "a" : undefined}
              disabled={sending !== undefined}
              onClick={() => answer(choice)}
            >
              <Verbatim text={choice} />
            </button>
          ))}
        </div>
      )}
      <label htmlFor={field}>
        {takesWords ? "Your answer in your own words, or why you decline" : "Why, if you decline"}
      </label>
      <textarea
        id={field}
        data-key={choices.length === 0 ? "a" : undefined}
        dir="auto"
        rows={2}
        maxLength={takesWords ? MAX_ANSWER : MAX_REASON}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      {problem !== "" && <ErrorNote message={problem} />}
      <div className="buttons">
        <button type="button" data-key="r" disabled={sending !== undefined} onClick={decline}>
          {sending === "" ? "Declining …" : "Decline to answer"}
        </button>
        {takesWords && (
          <button
            type="button"
            className="primary"
            disabled={sending !== undefined || text.trim() === ""}
            onClick={() => answer(text)}
          >
            Answer
          </button>
        )}
        {sending !== undefined && sending !== "" && <span role="status">Answering …</span>}
      </div>
    </div>
  );
}

interface AnsweredProps {
  decision: Decision;
  now: number;
}

/** Who answered, when and what. */
function Answered({ decision, now }: AnsweredProps) {
  const { actor } = useSession();
  const { by, verdict, answer } = decision;
  const [words, setWords] = useState<string | null>();
  const [problem, setProblem] = useState("");
  const [attempt, setAttempt] = useState(0);
  const isAnswer = verdict === "answer";
  const past = now - decision.time_ns / 1e6;

  useEffect(() => {
    if (answer === undefined) return;
    let gone = false;
    setProblem("");
    answerText(answer).then(
      (found) => gone || setWords(found),
      (error) => gone || setProblem(sentence(error)),
    );
    return () => {
      gone = true;
    };
  }, [answer, attempt]);

  const shown = isAnswer ? words : decision.reason;
  return (
    <>
      <p className={`outcome ${isAnswer ? "approve" : "reject"}`} role="status">
        {isAnswer ? "Answered" : "Declined"} by {by === actor ? "you" : <Name text={by} />},{" "}
        {past < 1000 ? "just now" : `${durationText(past)} ago`}
        {shown === null && <span className="faint"> (your role does not see the {isAnswer ? "answer" : "reason"})</span>}
        {shown != null && shown !== "" && (
          <>
            :{" "}
            <q dir="auto">
              {isAnswer ? <Verbatim text={shown} /> : <Name text={shown} />}
            </q>
          </>
        )}
      </p>
      {problem !== "" && <ErrorNote message={problem} onRetry={() => setAttempt(attempt + 1)} />}
    </>
  );
}

/** Returns the words of an answer; null for a caller whose role does not see them. */
async function answerText(ref: string): Promise<string | null> {
  try {
    return String(JSON.parse(await blobText(ref)).answer);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function parsedQuestion(json: string | null): Asked | null {
  try {
    const found = JSON.parse(json ?? "null");
    return typeof found?.question === "string" ? { choices: null, allow_other: true, ...found } : null;
  } catch {
    return null;
  }
}

/** The card of a question in a chat. */
export function AskUserCard({ artifact }: ToolCallMessagePartProps) {
  const facts = artifact as CallFacts;
  const { approvals, times } = useChat();
  const { decisions } = useApprovals();
  const now = useNow();
  const waiting = facts.state === "running" ? approvals.find((each) => each.tool_call_id === facts.callId) : undefined;
  const intent = times.get(facts.callId)?.intent;
  const decision = intent !== undefined ? decisions.get(intent) : undefined;
  const asked = parsedQuestion(facts.argumentsJson);

  if (waiting !== undefined) return <QuestionCard approval={waiting} />;
  return (
    <Asking facts={facts} asked={asked} by={decision?.by}>
      {decision !== undefined ? (
        <Answered decision={decision} now={now} />
      ) : (
        facts.errorCode !== null && (
          <p className="faint" dir="auto">
            <code>{facts.errorCode}</code> {facts.message}
          </p>
        )
      )}
    </Asking>
  );
}

interface AskingProps {
  facts: CallFacts;
  asked: Asked | null;
  /** The person who decided. */
  by?: string;
  children: ReactNode;
}

function Asking({ facts, asked, by, children }: AskingProps) {
  const state = facts.state === "done" ? "answered" : facts.state;
  const text = state === "running" ? "waits for an answer" : stateText(state, by);
  return (
    <section className={`card tool ${facts.state}`} aria-label="Question of the model">
      <header>
        <strong>Question</strong>
        <span className={`state ${state}`}>{text}</span>
      </header>
      {asked !== null ? <Words text={asked.question} /> : <p className="faint">Your role does not see the question.</p>}
      {asked?.choices != null && (
        <ul className="choices-given" aria-label="Choices">
          {asked.choices.map((choice) => (
            <li key={choice} dir="auto">
              <Verbatim text={choice} />
            </li>
          ))}
        </ul>
      )}
      {children}
    </section>
  );
}
