/** The button that verifies the journal, and says the seal. */
import { useState } from "react";
import { Problem } from "../parts/notes";
import { journalVerify } from "../sdk";

export function Verify() {
  const [done, setDone] = useState<Record<string, any>>();
  const [problem, setProblem] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [seal, setSeal] = useState("");
  const check = async () => {
    setBusy(true);
    setProblem(undefined);
    setDone(undefined);
    try {
      setDone(await journalVerify(seal.trim() === "" ? undefined : seal.trim()));
    } catch (error) {
      setProblem(error);
    }
    setBusy(false);
  };
  return (
    <details className="verify">
      <summary>Verify</summary>
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void check();
        }}
      >
        <label>
          A seal that you kept <input dir="ltr" value={seal} placeholder="none" onChange={(event) => setSeal(event.target.value)} />
        </label>
        <button type="submit" disabled={busy}>
          {busy ? "Verifying …" : "Verify every record"}
        </button>
      </form>
      <p role="status" className="wrap">
        {done !== undefined &&
          (done.ok ? (
            <>
              Sound: {Number(done.records).toLocaleString()} records. Seal <code>{done.seal}</code>. Keep the seal elsewhere: a later
              verification against it shows whether these records are still the same.
            </>
          ) : (
            <strong className="state failed">Damaged: {done.problem}</strong>
          ))}
      </p>
      {problem !== undefined && <Problem error={problem} />}
    </details>
  );
}
