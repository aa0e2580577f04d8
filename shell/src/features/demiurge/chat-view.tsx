/** One open chat: what the record says of it, read again as records come, and the text that streams meanwhile. */
import { type AppendMessage, AssistantRuntimeProvider, type ThreadMessageLike, useExternalStoreRuntime } from "@assistant-ui/react";
import { useMemo, useRef, useState } from "react";
import { useStream } from "../../live/stream";
import { useLive } from "../../live/use-live";
import { ErrorNote, Loading } from "../../parts/notes";
import { Link } from "../../router";
import {
  type ChatMessage,
  type ChatSummary,
  chatCancel,
  chatGet,
  type JournalRecord,
  journalGet,
  messagePost,
  messagesGet,
  sentence,
  toolsGet,
  type Turn,
  turnGet,
} from "../../sdk";
import { useApprovals } from "./approvals";
import { ChatContext } from "./chat-context";
import { CHAT, callTimes, threadMessages } from "./chat-data";
import { Thread } from "./thread";

interface Read {
  chat: ChatSummary;
  messages: ChatMessage[];
  turn: Turn | undefined;
  /** The streams of text whose answers these messages have. */
  recorded: Set<string>;
}

export function ChatView({ chatId }: { chatId: string }) {
  const unit = `${CHAT}/${chatId}`;
  const approvals = useApprovals();
  const [problem, setProblem] = useState("");
  const [texts, setTexts] = useState<Map<string, string>>(() => new Map());
  const records = useRef<JournalRecord[]>([]);
  const closed = useRef(new Set<string>());

  const load = async (): Promise<Read> => {
    const recorded = new Set(closed.current);
    const chat = await chatGet(chatId);
    const [{ messages }, turn, past] = await Promise.all([
      messagesGet(chatId),
      chat.last_request_id > 0 ? turnGet(chatId, chat.last_request_id) : undefined,
      chatRecords(unit, records.current),
    ]);
    records.current = past;
    approvals.addDecisions(past);
    return { chat, messages, turn, recorded };
  };
  const live = useLive(chatId, load, (record) => record.unit === unit);
  const tools = useLive("tools", toolsGet, (record) => record.kind === "manifest_replaced");

  useStream({
    onOpen: () => setTexts(new Map()),
    onFrame: (frame) => {
      if (frame.unit !== unit) return;
      if (frame.type === "began" && frame.kind === "llm.generate") setTexts((old) => new Map(old).set(frame.intent, ""));
      else if (frame.type === "text_delta") {
        setTexts((old) => new Map(old).set(frame.intent, (old.get(frame.intent) ?? "") + (frame.delta ?? "")));
      }
    },
    onRecord: (record) => {
      if (record.unit === unit && record.kind === "receipt") closed.current.add(String(record.body?.intent));
    },
  });

  const { data } = live;
  const streaming = [...texts].filter(([intent]) => data?.recorded.has(intent) !== true).map(([, text]) => text).join("\n\n");
  const messages = useMemo(
    () => (data === undefined ? [] : threadMessages(data.messages, data.turn, streaming)),
    [data, streaming],
  );
  const waiting = (approvals.live.data?.approvals ?? []).filter((each) => each.unit === unit);
  const isOpen = data?.turn?.status === "running" || data?.turn?.status === "awaiting_approval";

  const send = async (text: string) => {
    setProblem("");
    try {
      await messagePost(chatId, text);
      live.reload();
    } catch (error) {
      setProblem(sentence(error));
      throw error;
    }
  };
  const cancel = async () => {
    setProblem("");
    await chatCancel(chatId).catch((error) => setProblem(sentence(error)));
    live.reload();
  };
  const runtime = useExternalStoreRuntime<ThreadMessageLike>({
    messages,
    isRunning: isOpen,
    convertMessage: (message) => message,
    onNew: async (message: AppendMessage) => {
      const text = message.content.map((part) => (part.type === "text" ? part.text : "")).join("\n");
      await send(text).catch(() => runtime.thread.composer.setText(text));
    },
    onCancel: cancel,
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
        turn: data.turn,
        approvals: waiting,
        tools: new Map(tools.data?.tools.map((each) => [each.id, each])),
        times: callTimes(records.current),
        userTexts: new Map(data.messages.filter((each) => each.role === "user").map((each) => [each.request_id, each.text ?? ""])),
        problem,
        send: (text) => send(text).catch(() => undefined),
      }}
    >
      <header className="chat-head">
        <Link href="/chats" className="narrow-only">
          All chats
        </Link>
        <h1>
          <bdi>{data.chat.title || chatId}</bdi>
        </h1>
      </header>
      {live.error !== undefined && <ErrorNote message={sentence(live.error)} onRetry={live.reload} />}
      <AssistantRuntimeProvider runtime={runtime}>
        <Thread />
      </AssistantRuntimeProvider>
    </ChatContext>
  );
}

/** Returns the records of a chat, of which `known` were read before. */
async function chatRecords(unit: string, known: JournalRecord[]): Promise<JournalRecord[]> {
  const found = [...known];
  let from: number | null = found.length === 0 ? 0 : found[found.length - 1]!.seq + 1;
  while (from !== null) {
    const page: { records: JournalRecord[]; next: number | null } = await journalGet({ unit, from, limit: 1000 });
    found.push(...page.records);
    from = page.next;
  }
  return found;
}
