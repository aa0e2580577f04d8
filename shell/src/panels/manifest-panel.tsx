/** The manifest in force: definitions, grants, policies, and why a policy decides as it does. */
import { type FormEvent, useState } from "react";
import { useLive } from "../live/use-live";
import { ErrorNote } from "../parts/notes";
import { defsGet, effectExplain, infoGet, manifestGet, policyExplain, sentence } from "../sdk";
import { JsonView } from "./json-view";
import { PanelState } from "./panel-state";
import "./panels.css";

const load = async () => {
  const [manifest, { definitions }, info] = await Promise.all([manifestGet(), defsGet(), infoGet()]);
  return { manifest, definitions, info };
};

export default function ManifestPanel() {
  const live = useLive("manifest", load, (record) => record.kind === "manifest");
  const [kind, setKind] = useState("");
  return (
    <main className="page wide">
      <h1>Manifest</h1>
      <PanelState live={live} loading="Loading the manifest" empty="This world has no definitions." isEmpty={(data) => data.definitions.length === 0}>
        {({ manifest, definitions, info }) => (
          <>
            <p className="wrap">
              In force: <code>{String(info.manifest)}</code>
            </p>
            <Explain />
            <h2>Policies</h2>
            <JsonView value={manifest.tool_policy} label="Tool policy" />
            <h2>Definitions</h2>
            <label>
              Kind{" "}
              <select value={kind} onChange={(event) => setKind(event.target.value)}>
                <option value="">all</option>
                {[...new Set(definitions.map((each) => each.kind))].sort().map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>
            </label>
            {definitions
              .filter((each) => kind === "" || each.kind === kind)
              .map((each) => (
                <Definition key={`${each.kind} ${each.name}`} {...each} manifest={manifest} />
              ))}
          </>
        )}
      </PanelState>
    </main>
  );
}

function Definition({ kind, name, hash, manifest }: { kind: string; name: string; hash: string; manifest: Record<string, any> }) {
  const [open, setOpen] = useState(false);
  const all: Record<string, any>[] = [...(manifest.definitions ?? []), ...(manifest.system ?? [])];
  return (
    <details className="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <code className="wrap">{name}</code> <span className="tag">{kind}</span>
      </summary>
      {open && (
        <>
          <p className="faint wrap">{hash}</p>
          <JsonView value={all.find((each) => each.name === name && each.$kind === `def${kind}`)} label={`Definition ${name}`} />
        </>
      )}
    </details>
  );
}

function Explain() {
  const [found, setFound] = useState<Record<string, any>>();
  const [problem, setProblem] = useState("");
  const ask = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const what = String(new FormData(event.currentTarget).get("what") ?? "").trim();
    setProblem("");
    setFound(undefined);
    try {
      setFound(what.includes(".") ? await effectExplain(what) : await policyExplain(what));
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <section className="card" aria-label="Explain a decision">
      <form className="filters" onSubmit={ask}>
        <label>
          Tool, or kind of effect <input name="what" required placeholder="workspace__write, http.request" />
        </label>
        <button type="submit">Explain</button>
      </form>
      {problem !== "" && <ErrorNote message={problem} />}
      {found?.tool !== undefined && (
        <p>
          <code>{found.tool}</code> ({found.effect}): <strong>{found.decision}</strong>; {found.why}
          {!found.known && ", and there is no such tool here"}.
        </p>
      )}
      {found?.decisions !== undefined && (
        <ul>
          {found.decisions.map((each: any, place: number) => (
            <li key={place}>
              {each.origin.kind} {each.origin.name ?? ""} {each.cap !== null && `under ${each.cap}`}: <strong>{each.decision}</strong>; {each.why}.
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
