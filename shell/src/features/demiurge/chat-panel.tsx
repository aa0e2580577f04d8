/** The chats: a list that can be searched, and the chat that is open. */
import { type ChangeEvent, type FormEvent, useState } from "react";
import "./demiurge.css";
import { stateText } from "../../parts/call-state";
import { Name } from "../../parts/name";
import { Empty, ErrorNote, Loading } from "../../parts/notes";
import { Link, navigate, usePath } from "../../router";
import { chatImport, chatPost, sentence } from "../../sdk";
import { isUser, maySend, useSession } from "../../session";
import { useChatList } from "./chat-list";
import { ChatView } from "./chat-view";

const STATUS = { new: "", running: "answering", done: "", failed: "failed", awaiting_approval: stateText("awaiting_approval") };

export function ChatPanel() {
  const path = usePath();
  const open = path.startsWith("/chats/") ? decodeURIComponent(path.slice("/chats/".length)) : null;
  /** The chat that was made here last: its field for a message takes the focus. */
  const [made, setMade] = useState<string>();
  return (
    <div className={`chats ${open === null ? "none-open" : "one-open"}`}>
      <ChatList open={open} onMade={setMade} />
      <main className="chat">
        {open === null ? <Empty>Choose a chat, or begin a new one.</Empty> : <ChatView key={open} chatId={open} isNew={open === made} />}
      </main>
    </div>
  );
}

interface ChatListProps {
  open: string | null;
  onMade: (chatId: string) => void;
}

function ChatList({ open, onMade }: ChatListProps) {
  const [search, setSearch] = useState("");
  const [archived, setArchived] = useState(false);
  const { live, showMore } = useChatList(search.trim(), archived);
  const { chats, searched, next } = live.data ?? { chats: [], searched: "", next: null };

  return (
    <aside className="chat-list" aria-label="Chats">
      {maySend(useSession()) && (
        <NewChat
          onMade={(chatId) => {
            setSearch("");
            setArchived(false);
            onMade(chatId);
            navigate(`/chats/${encodeURIComponent(chatId)}`);
          }}
        />
      )}
      <input
        type="search"
        dir="auto"
        placeholder="Search chats"
        aria-label="Search chats"
        value={search}
        onChange={(event) => setSearch(event.target.value)}
      />
      <label className="faint">
        <input type="checkbox" checked={archived} onChange={(event) => setArchived(event.target.checked)} /> Archived chats
      </label>
      {live.error !== undefined && <ErrorNote message={sentence(live.error)} onRetry={live.reload} />}
      {live.loading && <Loading label="Loading the chats" />}
      {live.data !== undefined && chats.length === 0 && (
        <Empty>{searched !== "" ? "No chat has this in its title or id." : archived ? "No chat is archived." : "There is no chat yet."}</Empty>
      )}
      <ul>
        {chats.map((chat) => (
          <li key={chat.chat_id}>
            <Link
              href={`/chats/${encodeURIComponent(chat.chat_id)}`}
              aria-current={chat.chat_id === open ? "page" : undefined}
            >
              <span className="title">
                <Name inButton text={chat.name} />
              </span>
              {STATUS[chat.status] !== "" && <span className={`state ${chat.status}`}>{STATUS[chat.status]}</span>}
            </Link>
          </li>
        ))}
      </ul>
      {next !== null && (
        <button type="button" onClick={showMore}>
          Show more chats
        </button>
      )}
    </aside>
  );
}

function NewChat({ onMade }: { onMade: (chatId: string) => void }) {
  const [title, setTitle] = useState("");
  const [problem, setProblem] = useState("");
  const session = useSession();
  const importFile = async (event: ChangeEvent<HTMLInputElement>) => {
    const [file] = event.target.files ?? [];
    event.target.value = ""; // the same file can be chosen again
    if (file === undefined) return;
    setProblem("");
    try {
      onMade((await chatImport(JSON.parse(await file.text()))).chat_id);
    } catch (error) {
      setProblem(error instanceof SyntaxError ? "This file is not JSON. Export a chat as JSON, and choose that file." : sentence(error));
    }
  };
  const make = async (event: FormEvent) => {
    event.preventDefault();
    setProblem("");
    try {
      const made = await chatPost(title.trim());
      setTitle("");
      onMade(made.chat_id);
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <form className="new-chat" onSubmit={make}>
      <input
        dir="auto"
        maxLength={500}
        placeholder="Title of a new chat"
        aria-label="Title of a new chat"
        value={title}
        onChange={(event) => setTitle(event.target.value)}
      />
      <button type="submit" className="primary">
        New chat
      </button>
      {isUser(session) && (
        <label className="chat-import">
          Import a chat
          <input type="file" className="unseen" accept=".json,application/json" onChange={importFile} />
        </label>
      )}
      {problem !== "" && <ErrorNote message={problem} />}
    </form>
  );
}
