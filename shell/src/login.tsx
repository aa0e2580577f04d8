/** The page of a browser without a session: open the link of `demiurge serve`, or paste a token. */
import { type FormEvent, useState } from "react";
import { Prose } from "./parts/prose";
import { usePanelTitle } from "./parts/title";
import { login, sentence } from "./sdk";

export function LoginPage({ onLogin }: { onLogin: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  usePanelTitle("Log in");

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      await login(token.trim());
      onLogin();
    } catch (error) {
      setProblem(sentence(error));
    }
    setBusy(false);
  };

  return (
    <main className="alone">
      <h1>Log in to Demiurge</h1>
      <p>
        Open the link that <code>demiurge serve</code> printed. It logs one browser in, once. Or paste a token that{" "}
        <code>demiurge tokens add</code> made.
      </p>
      <form onSubmit={submit} className="column">
        <label htmlFor="token">Token</label>
        <input
          id="token"
          type="password"
          autoComplete="off"
          value={token}
          onChange={(event) => setToken(event.target.value)}
          required
        />
        <button type="submit" disabled={busy}>
          Log in
        </button>
        {problem !== "" && (
          <p role="alert" className="problem">
            <Prose text={problem} />
          </p>
        )}
      </form>
    </main>
  );
}
