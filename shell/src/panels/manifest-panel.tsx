/** The manifest in force: grants, policies, standing rules, definitions, and why a policy decides as it does. */
import { useState } from "react";
import { useApprovals } from "../features/demiurge/approvals";
import { AllRules } from "../features/demiurge/standing-rules";
import { useLive } from "../live/use-live";
import { moveFocus } from "../parts/list-keys";
import { Moment } from "../parts/time";
import { Verbatim } from "../parts/verbatim";
import { defsGet, infoGet, manifestGet } from "../sdk";
import { Explain } from "./explain";
import { JsonView } from "./json-view";
import { PanelState } from "./panel-state";
import "./panels.css";

/** So many definitions are shown at first. */
const SOME = 50;

/** The grant of HTTP to the hosts that whoever opened the world named. */
const ALLOWED_HOSTS = "allowed_hosts";

type Node = Record<string, any>;

const load = async () => {
  const [manifest, { definitions }, info] = await Promise.all([manifestGet(), defsGet(), infoGet()]);
  return { manifest, definitions, info };
};

export default function ManifestPanel() {
  const { mayAsk } = useApprovals();
  const live = useLive("manifest", load, (record) => record.kind === "manifest_replaced");
  return (
    <main className="page wide">
      <h1>Manifest</h1>
      <PanelState live={live} loading="Loading the manifest" empty="This world has no definitions." isEmpty={(data) => data.definitions.length === 0}>
        {({ manifest, definitions, info }) => (
          <>
            <p className="wrap">
              In force: <code>{String(info.manifest)}</code>
            </p>
            {manifest.extension && <p>It extends the app {String(manifest.extension.root?.extends)}: the world keeps only what differs.</p>}
            <SystemPrompt prompt={info.system_prompt} />
            <Explain />
            <h2>Tool policy</h2>
            <ToolPolicy policy={manifest.tool_policy ?? {}} />
            {mayAsk && (
              <>
                <h2>Standing rules</h2>
                <AllRules />
              </>
            )}
            <h2>Grants</h2>
            <Grants manifest={manifest} />
            <h2>The world's policy</h2>
            <WorldPolicy manifest={manifest} />
            <h2>Definitions</h2>
            <Definitions definitions={definitions} manifest={manifest} />
          </>
        )}
      </PanelState>
    </main>
  );
}

/** What the model of each chat is told first, and who put it in force. A viewer may not read the text. */
function SystemPrompt({ prompt }: { prompt: { text: string | null; is_default: boolean; by: string | null; at_ns: number | null } | null }) {
  if (!prompt) return null;
  return (
    <>
      <h2>System prompt</h2>
      <p className="faint">
        {prompt.is_default ? "The app's own." : prompt.by === null ? "This world's own." : <SetBy by={prompt.by} ns={prompt.at_ns!} />}
      </p>
      {prompt.text === null ? (
        <p className="faint">Its text can't be read here.</p>
      ) : (
        <pre className="wrap">
          <Verbatim text={prompt.text} />
        </pre>
      )}
    </>
  );
}

function SetBy({ by, ns }: { by: string; ns: number }) {
  return (
    <>
      Set by <Verbatim text={by} />, <Moment ns={ns} />.
    </>
  );
}

/** The lines of the tool policy by name. A line that is empty decides nothing, and is said to be so. */
function ToolPolicy({ policy }: { policy: Node }) {
  return (
    <>
      <dl className="facts">
        {Object.entries(policy).map(([name, value]) => (
          <div key={name} className="fact">
            <dt>
              <code>{name}</code>
            </dt>
            <dd className="wrap">{lineText(value)}</dd>
          </div>
        ))}
      </dl>
      <details>
        <summary>Tool policy as JSON</summary>
        <JsonView value={policy} label="Tool policy" />
      </details>
    </>
  );
}

function lineText(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return "none";
  if (Array.isArray(value)) return value.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join(", ");
  if (typeof value !== "object") return String(value);
  return Object.entries(value!)
    .map(([name, held]) => `${name}: ${lineText(held)}`)
    .join("; ");
}

function Grants({ manifest }: { manifest: Node }) {
  const hosts: string[] = manifest.allowed_hosts ?? [];
  const grants: Node[] = [...(manifest.root?.defaults?.cap_grants ?? [])];
  if (hosts.length > 0) grants.push({ name: ALLOWED_HOSTS, cap: "http.out", params: { origins: hosts.map((host) => `https://${host}`) } });
  if (grants.length === 0) return <p className="faint">The manifest grants nothing.</p>;
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Grants">
      <table>
        <thead>
          <tr>
            <th scope="col">Grant</th>
            <th scope="col">Capability</th>
            <th scope="col">Parameters</th>
          </tr>
        </thead>
        <tbody>
          {grants.map((grant) => (
            <tr key={grant.name}>
              <th scope="row">{grant.name}</th>
              <td>
                <code className="wrap">{grant.cap}</code>
              </td>
              <td className="wrap">{Object.keys(grant.params ?? {}).length === 0 ? "none" : lineText(grant.params)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The rules with the one that allowed hosts add, in its place: the last, or before a last rule that denies everything. */
function withHostsRule(rules: Node[], hosts: string[]): Node[] {
  if (hosts.length === 0) return rules;
  const last = rules.at(-1);
  const end = last?.decision === "deny" && Object.keys(last.when ?? {}).length === 0 ? rules.length - 1 : rules.length;
  const rule = { when: { effect_kind: "http.request", origin_kind: "tool", cap_name: ALLOWED_HOSTS }, decision: "allow" };
  return [...rules.slice(0, end), rule, ...rules.slice(end)];
}

function WorldPolicy({ manifest }: { manifest: Node }) {
  const name = manifest.root?.defaults?.policy;
  const policy = ((manifest.definitions ?? []) as Node[]).find((each) => each.$kind === "defpolicy" && each.name === name);
  if (policy === undefined) return <p className="faint">The world has no policy of its own.</p>;
  const rules = withHostsRule(policy.rules, manifest.allowed_hosts ?? []);
  return (
    <details>
      <summary>
        <code>{name}</code>: {rules.length} rules, of which the first that fits decides
      </summary>
      <ol className="terms">
        {rules.map((rule, place) => (
          <li key={place} className="wrap">
            <strong>{rule.decision}</strong>: {lineText(rule.when)}
          </li>
        ))}
      </ol>
    </details>
  );
}

interface DefinitionsProps {
  definitions: { kind: string; name: string; hash: string }[];
  manifest: Node;
}

function Definitions({ definitions, manifest }: DefinitionsProps) {
  const [kind, setKind] = useState("");
  const [text, setText] = useState("");
  const [count, setCount] = useState(SOME);
  const found = definitions.filter((each) => (kind === "" || each.kind === kind) && each.name.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <div className="filters">
        <label>
          Find a definition <input type="search" value={text} onChange={(event) => setText(event.target.value)} />
        </label>
        <label>
          Kind{" "}
          <select value={kind} onChange={(event) => setKind(event.target.value)}>
            <option value="">all</option>
            {[...new Set(definitions.map((each) => each.kind))].sort().map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <span className="faint" role="status">
          {found.length.toLocaleString()} of {definitions.length.toLocaleString()}
        </span>
      </div>
      <div className="column" onKeyDown={moveFocus}>
        {found.slice(0, count).map((each) => (
          <Definition key={`${each.kind} ${each.name}`} {...each} manifest={manifest} />
        ))}
      </div>
      {found.length > count && (
        <button type="button" onClick={() => setCount(count + SOME)}>
          More definitions ({(found.length - count).toLocaleString()})
        </button>
      )}
    </>
  );
}

function Definition({ kind, name, hash, manifest }: DefinitionsProps["definitions"][number] & { manifest: Node }) {
  const [open, setOpen] = useState(false);
  const all: Node[] = [...(manifest.definitions ?? []), ...(manifest.system ?? [])];
  return (
    <details className="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary data-item>
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
