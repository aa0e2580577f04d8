/** The head of an open chat: its title, which can be changed, its standing rules, and its deletion. */
import { type FormEvent, useEffect, useRef, useState } from "react";
import { Name } from "../../parts/name";
import { ErrorNote } from "../../parts/notes";
import { useSubject } from "../../parts/title";
import { Link, navigate } from "../../router";
import { chatArchive, chatDelete, chatExportPath, chatRename, type ChatSummary, sentence } from "../../sdk";
import { isUser, maySend, useSession } from "../../session";
import { useApprovals } from "./approvals";
import { ChatRules } from "./standing-rules";

interface HeadProps {
  chatId: string;
  unit: string;
  chat: ChatSummary;
  onChanged: () => void;
}

export function ChatHead({ chatId, unit, chat, onChanged }: HeadProps) {
  const [form, setForm] = useState<"rename" | "delete">();
  useSubject(chat.name);
  const { mayAsk } = useApprovals();
  const session = useSession();
  const buttons = { rename: useRef<HTMLButtonElement>(null), delete: useRef<HTMLButtonElement>(null) };
  const close = () => {
    const button = form !== undefined ? buttons[form] : undefined;
    setForm(undefined);
    requestAnimationFrame(() => button?.current?.focus());
  };
  return (
    <header className="chat-head">
      <Link href="/chats" className="narrow-only">
        All chats
      </Link>
      <h1 className={form === "rename" ? "unseen" : undefined}>
        <Name text={chat.name} />
      </h1>
      {form === "delete" && <DeleteForm chat={chat} onCancel={close} />}
      {form === "rename" && (
        <RenameForm
          chatId={chatId}
          title={chat.title}
          onDone={() => {
            onChanged();
            close();
          }}
          onCancel={close}
        />
      )}
      {form === undefined && isUser(session) && (
        <>
          <button type="button" className="quiet" ref={buttons.rename} onClick={() => setForm("rename")}>
            Rename
          </button>
          <ArchiveButton chat={chat} onDone={onChanged} />
          <button type="button" className="quiet" ref={buttons.delete} onClick={() => setForm("delete")}>
            Delete
          </button>
        </>
      )}
      {maySend(session) && <ExportLinks chatId={chatId} />}
      {mayAsk && <ChatRules unit={unit} />}
    </header>
  );
}

/** Downloads of the whole chat. */
function ExportLinks({ chatId }: { chatId: string }) {
  return (
    <details className="export">
      <summary>Export</summary>
      <p>
        <a href={chatExportPath(chatId, "markdown")} download>
          Markdown
        </a>{" "}
        to read, or{" "}
        <a href={chatExportPath(chatId, "json")} download>
          JSON
        </a>
        , with titles, times, models, tokens, cost, calls and files
      </p>
    </details>
  );
}

/** Puts the chat away, or takes it back into the list. */
function ArchiveButton({ chat, onDone }: { chat: ChatSummary; onDone: () => void }) {
  const [sending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const send = async () => {
    setSending(true);
    setProblem("");
    await chatArchive(chat.chat_id, !chat.archived).then(onDone, (error) => setProblem(sentence(error)));
    setSending(false);
  };
  return (
    <>
      <button type="button" className="quiet" disabled={sending} onClick={send}>
        {chat.archived ? "Unarchive" : "Archive"}
      </button>
      {problem !== "" && <ErrorNote message={problem} />}
    </>
  );
}

/** Erases the whole chat, with a reason for the record. */
function DeleteForm({ chat, onCancel }: { chat: ChatSummary; onCancel: () => void }) {
  const [why, setWhy] = useState("");
  const [sending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const remove = async (event: FormEvent) => {
    event.preventDefault();
    setSending(true);
    setProblem("");
    try {
      const { done } = await chatDelete(chat.chat_id, why.trim());
      if (done) navigate("/chats");
      else setProblem("The chat is deleted, and something that can't be erased still holds its words: `demiurge chat delete` lists it.");
    } catch (error) {
      setProblem(sentence(error));
    }
    setSending(false);
  };
  return (
    <form className="delete-chat" onSubmit={remove} onKeyDown={(event) => event.key === "Escape" && onCancel()}>
      <p>
        Erases all messages, results, files and titles of this chat for good. The record keeps that you did so, and why.
        This can't be undone; "Archive" can.
      </p>
      <input
        autoFocus
        dir="auto"
        aria-label="Reason, which is recorded"
        placeholder="Reason, which is recorded"
        maxLength={2000}
        value={why}
        onChange={(event) => setWhy(event.target.value)}
      />
      <button type="submit" className="danger" disabled={sending || why.trim() === ""}>
        {sending ? "Deleting …" : "Delete for good"}
      </button>
      <button type="button" disabled={sending} onClick={onCancel}>
        Cancel
      </button>
      {problem !== "" && <ErrorNote message={problem} />}
    </form>
  );
}

interface RenameProps {
  chatId: string;
  title: string;
  onDone: () => void;
  onCancel: () => void;
}

function RenameForm({ chatId, title, onDone, onCancel }: RenameProps) {
  const [wanted, setWanted] = useState(title);
  const [sending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.select(), []);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setSending(true);
    setProblem("");
    try {
      await chatRename(chatId, wanted.trim());
      onDone();
    } catch (error) {
      setProblem(sentence(error));
      setSending(false);
    }
  };
  return (
    <form className="rename" onSubmit={save} onKeyDown={(event) => event.key === "Escape" && onCancel()}>
      <input
        ref={input}
        dir="auto"
        aria-label="Title of this chat"
        maxLength={500}
        value={wanted}
        onChange={(event) => setWanted(event.target.value)}
      />
      <button type="submit" className="primary" disabled={sending || wanted.trim() === "" || wanted.trim() === title}>
        {sending ? "Saving …" : "Save"}
      </button>
      <button type="button" disabled={sending} onClick={onCancel}>
        Cancel
      </button>
      {problem !== "" && <ErrorNote message={problem} />}
    </form>
  );
}
