/** A form that proposes an approved version again. Nothing is live before that proposal is approved. */
import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import { Problem } from "../../parts/notes";
import { navigate } from "../../router";
import { type PromptToolVersion, rollbackPost } from "../../sdk/prompt-tools";
import { proposalHref } from "./review-words";
import { TextField } from "./text-field";

const RATIONALE: [number, number] = [20, 2000];

interface RollbackProps {
  id: string;
  version: PromptToolVersion;
  onBack: () => void;
}

export function RollbackForm({ id, version, onBack }: RollbackProps) {
  const [rationale, setRationale] = useState("");
  const [sending, setSending] = useState(false);
  const [error, setError] = useState<unknown>();
  const title = useId();
  const heading = useRef<HTMLHeadingElement>(null);
  const busy = useRef(false);
  useEffect(() => heading.current?.focus(), []);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (busy.current) return;
    busy.current = true;
    setSending(true);
    setError(undefined);
    try {
      const made = await rollbackPost(id, { version: version.version, rationale, layer: version.layer });
      navigate(proposalHref(made.id));
    } catch (problem) {
      setError(problem);
      setSending(false);
    }
    busy.current = false;
  };
  const isShort = rationale.trim().length < RATIONALE[0];
  return (
    <form className="second-step" aria-labelledby={title} onSubmit={submit}>
      <h3 id={title} ref={heading} tabIndex={-1}>
        Roll back to version {version.version}
      </h3>
      <p className="faint">This makes a proposal with the text, the examples and the test cases of that version. It is reviewed like any other.</p>
      <TextField label="Why go back" value={rationale} limits={RATIONALE} rows={2} onChange={setRationale} />
      {error !== undefined && <Problem error={error} />}
      <div className="buttons">
        <button type="button" disabled={sending} onClick={onBack}>
          Cancel
        </button>
        <button type="submit" className="primary" disabled={sending || isShort || rationale.length > RATIONALE[1]}>
          {sending ? "Proposing …" : "Propose this version"}
        </button>
        {isShort && <span className="faint">The reason has at least {RATIONALE[0]} characters.</span>}
      </div>
    </form>
  );
}
