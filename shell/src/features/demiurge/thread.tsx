/** The thread of a chat: its messages, cards of calls, how each turn ended, and the composer. */
import { MessagePrimitive, ThreadPrimitive, useAuiState, useMessagePartText } from "@assistant-ui/react";
import { lazy, type ReactNode, Suspense, useRef, useState } from "react";
import { useReading } from "../../live/stream";
import { ErrorNote } from "../../parts/notes";
import { UntrustedText } from "../../parts/taint";
import { Verbatim } from "../../parts/verbatim";
import { type Attachment, blobPath, type ChatMessage, type Finding, type NewAttachment, sentence, type Turn, turnGet } from "../../sdk";
import { maySend, useSession } from "../../session";
import { useChat } from "./chat-context";
import { CHAT } from "./chat-data";
import { Composer } from "./composer";
import { ASK_USER } from "./question-card";
import { useFollow } from "./follow";
import { TOOL_CARDS, ToolFallback } from "./tool-cards";

const Markdown = lazy(() => import("./markdown"));

export function Thread() {
  const { turns, shown } = useChat();
  const session = useSession();
  const root = useRef<HTMLDivElement>(null);
  const viewport = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const { isAtEnd, goToEnd } = useFollow(viewport, content, useAuiState(({ thread }) => thread.messages[0]?.id));
  const isNewest = shown.end === turns;

  return (
    <ThreadPrimitive.Root className="thread" ref={root}>
      <div className="viewport" ref={viewport} tabIndex={0} role="log" aria-live="off" aria-label="Messages">
        <div className="messages" ref={content}>
          <ThreadPrimitive.Empty>
            <p className="empty">Nothing was said here yet.</p>
          </ThreadPrimitive.Empty>
          {shown.start > 0 && (
            <button type="button" className="more" onClick={shown.earlier}>
              Show earlier messages ({shown.start} {shown.start === 1 ? "turn" : "turns"} before)
            </button>
          )}
          <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
          {!isNewest && (
            <button type="button" className="more" onClick={shown.later}>
              Show later messages ({turns - shown.end} {turns - shown.end === 1 ? "turn" : "turns"} after)
            </button>
          )}
          <div className="viewport-end" />
        </div>
      </div>
      {!(isAtEnd && isNewest) && (
        <button
          type="button"
          className="to-end"
          onClick={() => {
            shown.newest();
            goToEnd();
          }}
        >
          To the newest
        </button>
      )}
      <TurnStatus />
      {maySend(session) ? (
        <Composer dropZone={root} onSent={goToEnd} />
      ) : (
        <p className="faint read-only">Your role reads this chat, and does not write in it.</p>
      )}
    </ThreadPrimitive.Root>
  );
}

function PlainText() {
  const { text } = useMessagePartText();
  return (
    <p className="plain" dir="auto">
      {text}
    </p>
  );
}

function MarkdownText() {
  return (
    <Suspense fallback={<PlainText />}>
      <div className="markdown" dir="auto">
        <Markdown />
      </div>
    </Suspense>
  );
}

function UserMessage() {
  const user = useAuiState(({ message }) => message.metadata.custom.user) as ChatMessage | undefined;
  return (
    <MessagePrimitive.Root className="message user" id={`said-${user?.request_id}`}>
      {user?.imported === true && <span className="tag">imported, with its answer</span>}
      <span className="unseen">You: </span>
      {(user?.erased !== undefined || user?.text !== "") && <MessagePrimitive.Parts components={{ Text: PlainText }} />}
      {user?.attachments?.map((each, place) => (
        <Attached key={place} {...each} />
      ))}
    </MessagePrimitive.Root>
  );
}

function Attached({ type, mime, bytes_ref }: Attachment) {
  if (mime === undefined || bytes_ref === undefined) {
    const what = type === "image" ? "An image" : "A sound";
    return <p className="faint">{what} was attached; your role does not see it.</p>;
  }
  const path = blobPath(bytes_ref);
  if (type === "image") {
    return (
      <a href={path} target="_blank" rel="noreferrer">
        <img className="attached" src={path} alt="Attached by the user" loading="lazy" />
      </a>
    );
  }
  if (type === "audio") return <audio controls preload="metadata" src={path} aria-label="Attached sound" />;
  return <a href={path}>Attached {mime}</a>;
}

function AssistantMessage() {
  const custom = useAuiState(({ message }) => message.metadata.custom) as {
    request: number;
    isLast: boolean;
    tainted: string[];
    findings: Finding[];
  };
  return (
    <MessagePrimitive.Root className="message assistant" id={`answered-${custom.request}`}>
      <span className="unseen">Answer: </span>
      <MessagePrimitive.Parts components={{ Text: MarkdownText, tools: { by_name: TOOL_CARDS, Fallback: ToolFallback } }} />
      {custom.tainted.length > 0 && (
        <p className="faint" data-tainted-turn>
          This turn has read <UntrustedText tools={custom.tainted} />.
        </p>
      )}
      <EvidenceMark findings={custom.findings} />
      <TurnEnd request={custom.request} isLast={custom.isLast} />
    </MessagePrimitive.Root>
  );
}

/** The mark of an answer whose citations do not hold. */
function EvidenceMark({ findings }: { findings: Finding[] }) {
  if (findings.length === 0) return null;
  return (
    <div className="problem" data-evidence>
      <span className="tag">evidence does not hold</span>
      <ul>
        {findings.map(({ line, code, message }, place) => (
          <li className="wrap" key={place} title={code}>
            Line {line}: <Verbatim text={message} />
          </li>
        ))}
      </ul>
    </div>
  );
}

/** How a turn ended: an error with what to do, or its tokens and its cost. */
function TurnEnd({ request, isLast }: { request: number; isLast: boolean }) {
  const { chatId, turn: last, failures, send, userMessage } = useChat();
  const session = useSession();
  const why = failures.get(request);
  const [asked, setAsked] = useState<Turn>();
  const [problem, setProblem] = useState("");
  const turn = isLast ? last : asked;

  const load = () => turnGet(chatId, request).then(
    (found) => {
      setAsked(found);
      setProblem("");
    },
    (error) => setProblem(sentence(error)),
  );
  if (problem !== "") return <ErrorNote message={problem} onRetry={load} />;
  if (turn === undefined) {
    return isLast ? null : (
      <>
        {why !== undefined && <TurnFailed {...why} />}
        <button type="button" className="link" onClick={load}>
          Tokens and cost
        </button>
      </>
    );
  }
  if (turn.request_id !== request || turn.status === "running" || turn.status === "awaiting_approval") return null;
  return (
    <>
      {turn.status === "failed" && (
        <TurnFailed code={turn.error_code} message={turn.message} isNew={isLast}>
          {isLast && maySend(session) && isRepeatable(userMessage(request)) && (
            <button type="button" onClick={() => void sayAgain(userMessage(request), send)}>
              Say it again
            </button>
          )}
        </TurnFailed>
      )}
      {turn.finish_reason === "length" && <p className="faint">The answer was cut at the limit of its length.</p>}
      <p className="faint tokens">
        {turn.cost_usd === null && turn.prompt_tokens === 0
          ? "Tokens and cost unknown"
          : `${turn.prompt_tokens} tokens in, ${turn.completion_tokens} out, cost ${turn.cost_usd === null ? "unknown" : `$${turn.cost_usd}`}`}
      </p>
      {turn.budgets.map((each) => (
        <p className="faint budget" key={`${each.account} ${each.dimension}`}>
          {each.says}
        </p>
      ))}
    </>
  );
}

interface TurnFailedProps {
  code: string | null;
  message: string;
  isNew?: boolean;
  children?: ReactNode;
}

function TurnFailed({ code, message, isNew = false, children }: TurnFailedProps) {
  return (
    <div className="problem" role={isNew ? "alert" : undefined}>
      <strong>{code === "cancelled" ? "This turn was stopped." : "This turn failed."}</strong> <code>{code}</code>{" "}
      <span dir="auto">{message}</span>
      {children}
    </div>
  );
}

const isRepeatable = (said: ChatMessage | undefined): said is ChatMessage =>
  said !== undefined && !said.erased && ((said.text ?? "") !== "" || (said.attachments ?? []).length > 0);

async function sayAgain(said: ChatMessage | undefined, send: ReturnType<typeof useChat>["send"]): Promise<void> {
  if (!isRepeatable(said)) return;
  await send(said.text ?? "", (said.attachments ?? []).filter(isWhole).map(({ mime, bytes_ref }) => ({ mime, bytes_ref })));
}

const isWhole = (each: Attachment): each is Attachment & NewAttachment => each.bytes_ref !== undefined && each.mime !== undefined;

/** One line says how the turn stands, also to a screen reader. How much of a prompt a model has read is only seen: each
 * percent would be read aloud. */
function TurnStatus() {
  const { chatId, turn, approvals } = useChat();
  const reading = useReading(`${CHAT}/${chatId}`);
  const text =
    approvals.length > 0
      ? approvals.every((each) => each.tool === ASK_USER)
        ? "The model waits for an answer"
        : approvals.every((each) => each.input != null)
        ? "A tool waits for an answer"
        : "Approval needed"
      : turn?.status === "awaiting_approval"
      ? "A person has to decide"
      : turn?.status === "running"
        ? "Answering …"
        : turn?.status === "failed"
          ? turn.error_code === "cancelled"
            ? "Stopped"
            : "Failed"
          : "";
  const isReading = reading !== undefined && turn?.status === "running" && approvals.length === 0;
  return (
    <p role="status" className="turn-status">
      {isReading && <span aria-hidden>{reading.charAt(0).toUpperCase() + reading.slice(1)}</span>}
      <span className={isReading ? "unseen" : undefined}>{text}</span>
      {turn?.status === "done" && <span className="unseen">Done</span>}
    </p>
  );
}
