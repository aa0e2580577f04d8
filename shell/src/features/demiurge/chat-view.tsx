/** One open chat: what the record says of it, read again as records come, and the text that streams meanwhile. */
import { AssistantRuntimeProvider, type ThreadMessageLike, useExternalStoreRuntime } from "@assistant-ui/react";
import { useEffect, useMemo, useState } from "react";
import { useStream } from "../../live/stream";
import { useLive } from "../../live/use-live";
import { ErrorNote, Loading } from "../../parts/notes";
import { Link } from "../../router";
import { chatCancel, messagePost, type MessageTerms, type NewAttachment, sentence, toolsGet } from "../../sdk";
import { useApprovals } from "./approvals";
import { ChatContext } from "./chat-context";
import { CHAT, callTimes, requestsOf, threadMessages } from "./chat-data";
import { ChatHead } from "./chat-head";
import { type ChatRead, ChatRecord } from "./chat-record";
import { useMessageWindow } from "./message-window";
import { Thread } from "./thread";

interface Read extends ChatRead {
  /** The intents whose receipts were read: if a model answered one, the messages have its answer. */
  answered: Set<string>;
}

interface ChatViewProps {
  chatId: string;
  /** Whether this page made the chat just now: a person writes next. */
  isNew: boolean;
}

export function ChatView({ chatId, isNew }: ChatViewProps) {
  const unit = `${CHAT}/${chatId}`;
  const approvals = useApprovals();
  const [problem, setProblem] = useState("");
  const [texts, setTexts] = useState<Map<string, string>>(() => new Map());
  const [record] = useState(() => new ChatRecord(chatId, unit));

  const load = async (): Promise<Read> => {
    const found = await record.read();
    approvals.addDecisions(found.records);
    const receipts = found.records.filter((each) => each.kind === "receipt");
    return { ...found, answered: new Set(receipts.map((each) => String(each.body?.intent))) };
  };
  const live = useLive(chatId, load, (each) => each.unit === unit || each.kind === "erased");
  const tools = useLive("tools", toolsGet, (each) => each.kind === "manifest_replaced");

  useStream({
    onOpen: () => setTexts(new Map()),
    onFrame: (frame) => {
      if (frame.unit !== unit) return;
      if (frame.type === "began" && frame.kind === "llm.generate") setTexts((old) => new Map(old).set(frame.intent, ""));
      else if (frame.type === "text_delta") {
        setTexts((old) => new Map(old).set(frame.intent, (old.get(frame.intent) ?? "") + (frame.delta ?? "")));
      }
    },
    onRecord: (each) => {
      if (each.kind === "erased") record.forget();
    },
  });

  const { data } = live;
  const requests = useMemo(() => requestsOf(data?.messages ?? []), [data]);
  const shown = useMessageWindow(requests.length);
  const isNewest = shown.end === requests.length;
  const mounted = useMemo(() => {
    const among = new Set(requests.slice(shown.start, shown.end));
    return (data?.messages ?? []).filter((each) => among.has(each.request_id));
  }, [data, requests, shown.start, shown.end]);
  // The messages may have an answer whose receipt was not read yet: its text is not shown twice.
  const last = data?.messages.findLast((each) => each.role === "assistant" && each.request_id === data.turn?.request_id);
  const streaming = [...texts]
    .filter(([intent, text]) => data?.answered.has(intent) !== true && text !== last?.text)
    .map(([, text]) => text)
    .join("\n\n");
  const messages = useMemo(() => threadMessages(mounted, data?.turn, isNewest ? streaming : ""), [mounted, data, isNewest, streaming]);
  const times = useMemo(() => callTimes(data?.records ?? []), [data]);
  const waiting = (approvals.live.data?.approvals ?? []).filter((each) => each.unit === unit);
  const isOpen = data?.turn?.status === "running" || data?.turn?.status === "awaiting_approval";

  useEffect(() => {
    if (isNewest) return;
    void record.readOlder().then((older) => older.length > 0 && live.reload(), () => undefined); // times alone are missing
  }, [shown.start]);

  const send = async (text: string, attachments: NewAttachment[], terms?: MessageTerms) => {
    setProblem("");
    try {
      await messagePost(chatId, text, attachments, terms);
      shown.newest();
      live.reload();
      return true;
    } catch (error) {
      setProblem(sentence(error));
      return false;
    }
  };
  const cancel = async () => {
    setProblem("");
    await chatCancel(chatId).catch((error) => setProblem(sentence(error)));
    live.reload();
  };
  const runtime = useExternalStoreRuntime<ThreadMessageLike>({
    messages,
    isRunning: isOpen && isNewest,
    convertMessage: (message) => message,
    onNew: async () => undefined, // the composer sends by itself
  });

  if (live.loading) return <Loading label="Loading the chat" />;
  if (data === undefined) {
    return (
      <div className="page">
        <ErrorNote message={sentence(live.error)} onRetry={live.reload} />
        <Link href="/chats">All chats</Link>
      </div>
    );
  }
  return (
    <ChatContext
      value={{
        chatId,
        isNew,
        turn: data.turn,
        failures: data.failures,
        approvals: waiting,
        tools: new Map(tools.data?.tools.map((each) => [each.id, each])),
        times,
        userMessage: (request) => mounted.find((each) => each.request_id === request && each.role === "user"),
        problem,
        send,
        cancel,
        turns: requests.length,
        shown,
      }}
    >
      <ChatHead chatId={chatId} unit={unit} chat={data.chat} onChanged={live.reload} />
      {live.error !== undefined && <ErrorNote message={sentence(live.error)} onRetry={live.reload} />}
      <AssistantRuntimeProvider runtime={runtime}>
        <Thread />
      </AssistantRuntimeProvider>
    </ChatContext>
  );
}
