/** The thread of a chat: its messages, cards of calls, how each turn ended, and the composer. */
import { ComposerPrimitive, MessagePrimitive, ThreadPrimitive, useAuiState, useMessagePartText } from "@assistant-ui/react";
import { lazy, Suspense, useEffect, useState } from "react";
import { ErrorNote } from "../../parts/notes";
import { blobPath, type ChatMessage, sentence, type Turn, turnGet } from "../../sdk";
import { useChat } from "./chat-context";
import { TOOL_CARDS, ToolFallback } from "./tool-cards";

const Markdown = lazy(() => import("./markdown"));

export function Thread() {
  return (
    <ThreadPrimitive.Root className="thread">
      <ThreadPrimitive.Viewport className="viewport" tabIndex={0} role="log" aria-live="off" aria-label="Messages">
        <ThreadPrimitive.Empty>
          <p className="empty">Nothing was said here yet.</p>
        </ThreadPrimitive.Empty>
        <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
        <div className="viewport-end" />
      </ThreadPrimitive.Viewport>
      <ThreadPrimitive.ScrollToBottom className="to-end">To the newest</ThreadPrimitive.ScrollToBottom>
      <TurnStatus />
      <Composer />
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
    <MessagePrimitive.Root className="message user">
      <span className="unseen">You: </span>
      <MessagePrimitive.Parts components={{ Text: PlainText }} />
      {user?.attachments?.map((each) => (
        <Attached key={each.bytes_ref} mime={each.mime} hash={each.bytes_ref} />
      ))}
    </MessagePrimitive.Root>
  );
}

function Attached({ mime, hash }: { mime: string; hash: string }) {
  if (mime.startsWith("image/")) return <img className="attached" src={blobPath(hash)} alt="Attached by the user" />;
  if (mime.startsWith("audio/")) return <audio controls src={blobPath(hash)} aria-label="Attached sound" />;
  return <a href={blobPath(hash)}>Attached {mime}</a>;
}

function AssistantMessage() {
  const custom = useAuiState(({ message }) => message.metadata.custom) as { request: number; isLast: boolean };
  return (
    <MessagePrimitive.Root className="message assistant">
      <span className="unseen">Answer: </span>
      <MessagePrimitive.Parts components={{ Text: MarkdownText, tools: { by_name: TOOL_CARDS, Fallback: ToolFallback } }} />
      <TurnEnd request={custom.request} isLast={custom.isLast} />
    </MessagePrimitive.Root>
  );
}

/** How a turn ended: an error with what to do, or its tokens and its cost. */
function TurnEnd({ request, isLast }: { request: number; isLast: boolean }) {
  const { chatId, turn: last, send } = useChat();
  const empty = useAuiState(({ message }) => message.content.length === 0);
  const user = useUserText(request);
  const [asked, setAsked] = useState<Turn>();
  const [problem, setProblem] = useState("");
  const turn = isLast ? last : asked;

  const load = () => turnGet(chatId, request).then(setAsked, (error) => setProblem(sentence(error)));
  useEffect(() => {
    if (!isLast && empty) void load(); // nothing was answered: the reason is in the turn
  }, [isLast, empty, chatId, request]);

  if (problem !== "") return <ErrorNote message={problem} onRetry={load} />;
  if (turn === undefined) {
    return isLast ? null : (
      <button type="button" className="link" onClick={load}>
        Tokens and cost
      </button>
    );
  }
  if (turn.request_id !== request || turn.status === "running" || turn.status === "awaiting_approval") return null;
  return (
    <>
      {turn.status === "failed" && (
        <div className="problem" role={isLast ? "alert" : undefined}>
          <strong>{turn.error_code === "cancelled" ? "This turn was stopped." : "This turn failed."}</strong>{" "}
          <code>{turn.error_code}</code> <span dir="auto">{turn.message}</span>
          {isLast && user !== "" && (
            <button type="button" onClick={() => void send(user)}>
              Say it again
            </button>
          )}
        </div>
      )}
      {turn.finish_reason === "length" && <p className="faint">The answer was cut at the limit of its length.</p>}
      <p className="faint tokens">
        {turn.prompt_tokens} tokens in, {turn.completion_tokens} out, cost{" "}
        {turn.cost_usd === null ? "unknown" : `$${turn.cost_usd}`}
      </p>
    </>
  );
}

function useUserText(request: number): string {
  const { userTexts } = useChat();
  return userTexts.get(request) ?? "";
}

/** One line says how the turn stands, also to a screen reader. */
function TurnStatus() {
  const { turn, approvals } = useChat();
  const text =
    approvals.length > 0
      ? "Approval needed"
      : turn?.status === "running"
        ? "Answering …"
        : turn?.status === "failed"
          ? "Failed"
          : "";
  return (
    <p role="status" className="turn-status">
      {text}
      {turn?.status === "done" && <span className="unseen">Done</span>}
    </p>
  );
}

function Composer() {
  const { turn, approvals, problem } = useChat();
  const open = turn?.status === "running" || turn?.status === "awaiting_approval";
  return (
    <>
      {problem !== "" && <ErrorNote message={problem} />}
      <ComposerPrimitive.Root className="composer">
        <ComposerPrimitive.Input
          className="composer-input"
          dir="auto"
          rows={1}
          maxRows={10}
          placeholder={approvals.length > 0 ? "A call waits for your decision" : "Say something"}
          aria-label="Message"
        />
        {open ? (
          <ComposerPrimitive.Cancel className="danger">Stop</ComposerPrimitive.Cancel>
        ) : (
          <ComposerPrimitive.Send className="primary">Send</ComposerPrimitive.Send>
        )}
      </ComposerPrimitive.Root>
    </>
  );
}
