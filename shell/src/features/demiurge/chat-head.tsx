/** The head of an open chat: its title, which can be changed, and its standing rules. */
import { type FormEvent, useEffect, useRef, useState } from "react";
import { Name } from "../../parts/name";
import { ErrorNote } from "../../parts/notes";
import { useSubject } from "../../parts/title";
import { Link } from "../../router";
import { chatRename, sentence } from "../../sdk";
import { maySend, useSession } from "../../session";
import { useApprovals } from "./approvals";
import { ChatRules } from "./standing-rules";

interface HeadProps {
  chatId: string;
  unit: string;
  title: string;
  onRenamed: () => void;
}

export function ChatHead({ chatId, unit, title, onRenamed }: HeadProps) {
  const [renaming, setRenaming] = useState(false);
  useSubject(title || chatId);
  const { mayAsk } = useApprovals();
  const session = useSession();
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setRenaming(false);
    requestAnimationFrame(() => button.current?.focus());
  };
  return (
    <header className="chat-head">
      <Link href="/chats" className="narrow-only">
        All chats
      </Link>
      <h1 className={renaming ? "unseen" : undefined}>
        <Name text={title || chatId} />
      </h1>
      {renaming ? (
        <RenameForm
          chatId={chatId}
          title={title}
          onDone={() => {
            onRenamed();
            close();
          }}
          onCancel={close}
        />
      ) : (
        maySend(session) && (
          <button type="button" className="quiet" ref={button} onClick={() => setRenaming(true)}>
            Rename
          </button>
        )
      )}
      {mayAsk && <ChatRules unit={unit} />}
    </header>
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
