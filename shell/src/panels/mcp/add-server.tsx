/** A form for a server at an address. A server with a command is added on the command line alone. */
import { type FormEvent, useState } from "react";
import { ErrorNote } from "../../parts/notes";
import type { Sending } from "../../parts/use-send";

interface AddServerProps {
  sending: Sending;
  /** Adds the server, and returns whether it is taken. */
  onAdd: (name: string, url: string) => Promise<boolean>;
}

export function AddServer({ sending: { sending, problem }, onAdd }: AddServerProps) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const add = async (event: FormEvent) => {
    event.preventDefault();
    if (!(await onAdd(name.trim(), url.trim()))) return;
    setName("");
    setUrl("");
  };
  return (
    <details>
      <summary>Add a server at an address</summary>
      <form className="decision" onSubmit={add}>
        <label htmlFor="server-name">Name</label>
        <input id="server-name" required maxLength={32} value={name} onChange={(event) => setName(event.target.value)} />
        <label htmlFor="server-url">Address</label>
        <input id="server-url" type="url" required dir="ltr" placeholder="https://" value={url} onChange={(event) => setUrl(event.target.value)} />
        {problem !== "" && <ErrorNote message={problem} />}
        <p className="buttons">
          <button type="submit" disabled={sending !== undefined}>
            {sending === "add" ? "Sending …" : "Add the server"}
          </button>
        </p>
        <p className="faint">
          Nothing is asked of it before <code>demiurge mcp adopt</code> on the machine that has the world open. A server with a command
          is a program: it is added there alone, with <code>demiurge mcp add</code>.
        </p>
      </form>
    </details>
  );
}
