/** Where a message is written: text, and images and sounds that are chosen, dropped or pasted. */
import { type FormEvent, type KeyboardEvent, type RefObject, useEffect, useId, useRef, useState } from "react";
import { ErrorNote } from "../../parts/notes";
import { ACCEPT, asNew, type AttachedFile, attachedFile, MAX_FILES, sizeText, stored } from "./attachments";
import { useChat } from "./chat-context";
import { messageTerms, NO_TERMS, TermsForm } from "./message-terms";

interface ComposerProps {
  dropZone: RefObject<HTMLElement | null>;
  /** Called when a message goes out: what comes next is to be seen. */
  onSent: () => void;
}

export function Composer({ dropZone, onSent }: ComposerProps) {
  const { isNew, turn, approvals, problem, send, cancel } = useChat();
  const [text, setText] = useState("");
  const [terms, setTerms] = useState(NO_TERMS);
  const [sending, setSending] = useState(false);
  const files = useAttachedFiles();
  const isOver = useFileDrop(dropZone, files.add);
  const input = useRef<HTMLInputElement>(null);
  const field = useId();
  const isOpen = turn?.status === "running" || turn?.status === "awaiting_approval";
  const isStoring = files.list.some((file) => file.ref === null && file.problem === "");
  const isBad = files.list.some((file) => file.problem !== "");
  const isEmpty = text.trim() === "" && files.list.length === 0;

  const submit = async (event?: FormEvent) => {
    event?.preventDefault();
    if (isOpen || sending || isStoring || isBad || isEmpty) return;
    setSending(true);
    onSent();
    if (await send(text, asNew(files.list), messageTerms(terms))) {
      setText((now) => (now.startsWith(text) ? now.slice(text.length) : now)); // what was typed meanwhile stays
      files.clear();
      setTerms(NO_TERMS);
    }
    setSending(false);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) void submit(event);
  };

  return (
    <>
      {problem !== "" && <ErrorNote message={problem} />}
      {isOver && <p className="drop-here">Drop images and sounds here to attach them.</p>}
      {files.list.length > 0 && (
        <ul className="attached-files" aria-label="Attached files">
          {files.list.map((file) => (
            <FileItem key={file.key} file={file} onRemove={() => files.remove(file.key)} />
          ))}
        </ul>
      )}
      <form className="composer" onSubmit={submit}>
        <input
          ref={input}
          id={field}
          type="file"
          className="unseen"
          tabIndex={-1}
          aria-hidden
          multiple
          accept={ACCEPT}
          onChange={(event) => {
            files.add([...(event.target.files ?? [])]);
            event.target.value = "";
          }}
        />
        <button type="button" onClick={() => input.current?.click()} title="Images (PNG, JPEG, GIF, WebP) and sounds (WAV, MP3)">
          Attach
        </button>
        <textarea
          className="composer-input"
          dir="auto"
          rows={1}
          placeholder={approvals.length > 0 ? "A call waits for your decision" : "Say something"}
          aria-label="Message"
          autoFocus={isNew}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKey}
          onPaste={(event) => {
            const pasted = [...event.clipboardData.files];
            if (pasted.length > 0) event.preventDefault();
            files.add(pasted);
          }}
        />
        {isOpen ? (
          <button type="button" className="danger" onClick={() => void cancel()}>
            Stop
          </button>
        ) : (
          <button type="submit" className="primary" disabled={sending || isStoring || isBad || isEmpty}>
            {sending ? "Sending …" : "Send"}
          </button>
        )}
      </form>
      <TermsForm terms={terms} onChange={setTerms} />
    </>
  );
}

function FileItem({ file, onRemove }: { file: AttachedFile; onRemove: () => void }) {
  return (
    <li className={file.problem === "" ? undefined : "problem"}>
      {file.preview !== null && <img src={file.preview} alt="" />}
      <span className="wrap">
        <bdi>{file.name}</bdi>{" "}
        <span className="faint">
          {sizeText(file.size)}
          {file.ref === null && file.problem === "" && ", being stored …"}
        </span>
        {file.problem !== "" && (
          <span role="alert" className="why">
            {file.problem}
          </span>
        )}
      </span>
      <button type="button" onClick={onRemove}>
        Remove<span className="unseen"> {file.name}</span>
      </button>
    </li>
  );
}

function useAttachedFiles() {
  const [list, setList] = useState<AttachedFile[]>([]);
  const previews = useRef<string[]>([]);
  const forget = () => {
    previews.current.forEach((each) => URL.revokeObjectURL(each));
    previews.current = [];
  };
  useEffect(() => forget, []);

  const add = (files: File[]) => {
    for (const file of files.slice(0, MAX_FILES - list.length)) {
      const attached = attachedFile(file);
      if (attached.preview !== null) previews.current.push(attached.preview);
      setList((old) => [...old, attached]);
      if (attached.problem !== "") continue;
      void stored(attached, file).then((done) => setList((old) => old.map((each) => (each.key === done.key ? done : each))));
    }
  };
  return {
    list,
    add,
    remove: (key: number) => setList((old) => old.filter((each) => each.key !== key)),
    clear: () => {
      forget();
      setList([]);
    },
  };
}

/** Takes files that are dropped on an element. Returns whether files are over it. */
function useFileDrop(zone: RefObject<HTMLElement | null>, onFiles: (files: File[]) => void): boolean {
  const [isOver, setOver] = useState(false);
  const current = useRef(onFiles);
  current.current = onFiles;
  useEffect(() => {
    const element = zone.current;
    if (element === null) return;
    const over = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent) => {
      if (!element.contains(event.relatedTarget as Node | null)) setOver(false);
    };
    const drop = (event: DragEvent) => {
      setOver(false);
      if (event.dataTransfer === null || event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      current.current([...event.dataTransfer.files]);
    };
    element.addEventListener("dragover", over);
    element.addEventListener("dragleave", leave);
    element.addEventListener("drop", drop);
    return () => {
      element.removeEventListener("dragover", over);
      element.removeEventListener("dragleave", leave);
      element.removeEventListener("drop", drop);
    };
  }, [zone]);
  return isOver;
}
