/** The tools of the world: effect, source, the decision on a call of this caller and why, uses, and tokens. */
import { useState } from "react";
import { useLive } from "../live/use-live";
import { moveFocus } from "../parts/list-keys";
import { Link, navigate, useSearch } from "../router";
import { toolsAll, type ToolView } from "../sdk";
import { maySend, useSession } from "../session";
import { CallForm } from "./call-form";
import { decisionState, decisionText } from "./explain";
import { JsonView } from "./json-view";
import { Moment, PanelState } from "./panel-state";
import "./panels.css";

/** So many tools are shown at first. */
const SOME = 100;

/** The source of the tools that every world has. */
const SHIPPED = "shipped";

export default function ToolsPanel() {
  const chosen = useSearch().get("tool");
  const live = useLive("tools", toolsAll, (record) => record.kind === "manifest_replaced" || (record.kind === "intent" && record.body?.kind === "tool.call"));
  const [text, setText] = useState("");
  const [count, setCount] = useState(SOME);
  const [showsShipped, setShowsShipped] = useState(false);
  return (
    <main className="page wide">
      <h1>Tools</h1>
      <label>
        Find <input type="search" value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <PanelState live={live} loading="Loading the tools" empty="This world has no tools." isEmpty={(data) => data.tools.length === 0}>
        {(data) => {
          const found = data.tools.filter((tool) => `${tool.id} ${tool.description} ${tool.details}`.toLowerCase().includes(text.toLowerCase()));
          const isFolded = !showsShipped && text === "" && found.find((tool) => tool.id === chosen)?.source !== SHIPPED;
          const listed = isFolded ? found.filter((tool) => tool.source !== SHIPPED) : found;
          return (
            <>
              <p className="faint" role="status">
                {found.length.toLocaleString()} of {data.tools.length.toLocaleString()} tools. Calls are counted among the newest{" "}
                {(data.counted_records ?? 0).toLocaleString()} records.
              </p>
              <div className="column" onKeyDown={moveFocus}>
                {listed.slice(0, count).map((tool) => (
                  <Tool key={tool.id} tool={tool} isOpen={tool.id === chosen} />
                ))}
              </div>
              {listed.length > count && (
                <button type="button" onClick={() => setCount(count + SOME)}>
                  More tools ({(listed.length - count).toLocaleString()})
                </button>
              )}
              {listed.length < found.length && (
                <p>
                  <button type="button" onClick={() => setShowsShipped(true)}>
                    Show the {(found.length - listed.length).toLocaleString()} tools that come with Demiurge
                  </button>
                </p>
              )}
            </>
          );
        }}
      </PanelState>
    </main>
  );
}

function Tool({ tool, isOpen }: { tool: ToolView; isOpen: boolean }) {
  const mayCall = maySend(useSession());
  const calls = tool.calls ?? 0;
  return (
    <details className="card" open={isOpen}>
      <summary
        data-item
        onClick={(event) => {
          event.preventDefault();
          navigate(isOpen ? "/tools" : `/tools?tool=${encodeURIComponent(tool.id)}`, { replace: true });
        }}
      >
        <span className="tool-line">
          <code className="wrap">{tool.id}</code> <span className={tool.effect === "read_only" ? "tag" : "tag effect"}>{tool.effect}</span> <span className="tag">{tool.source}</span>{" "}
          {tool.trust !== null && <TrustTags trust={tool.trust} />}
          <span className={`state ${decisionState(tool.decision)}`}>{decisionText(tool.decision)}</span>{" "}
          <span className="faint">
            {calls === 0 ? "not called" : calls === 1 ? "1 call" : `${calls.toLocaleString()} calls`}, about {tool.tokens.toLocaleString()} tokens
          </span>
        </span>
      </summary>
      {isOpen && (
        <>
          <p dir="auto">{tool.description}</p>
          {tool.details !== "" && (
            <p dir="auto" className="plain">
              {tool.details}
            </p>
          )}
          <dl className="facts">
            <dt>For you</dt>
            <dd>
              {decisionText(tool.decision)}; {tool.why}. <Link href={`/manifest?explain=${encodeURIComponent(tool.id)}`}>Explain</Link>
            </dd>
            <dt>Calls</dt>
            <dd>
              {calls.toLocaleString()}
              {tool.last_called_ns != null && (
                <>
                  , the last one <Moment ns={tool.last_called_ns} />
                </>
              )}
              . <Link href={`/journal?view=calls&text=${encodeURIComponent(`tool.call ${tool.id} `)}`}>Show them in the journal</Link>
            </dd>
            {tool.trust !== null && (
              <>
                <dt>Source</dt>
                <dd>
                  The MCP server{" "}
                  <Link href={`/mcp-servers?server=${encodeURIComponent(tool.source.slice(4))}&tool=${encodeURIComponent(tool.id)}`}>{tool.source.slice(4)}</Link>.
                  Its texts and results are of somebody else.
                </dd>
              </>
            )}
            <dt>Specification</dt>
            <dd className="wrap">
              <code>{tool.spec_hash}</code>
            </dd>
          </dl>
          {mayCall && <CallForm tool={tool} />}
          <JsonView value={tool.input_schema} label={`Schema of ${tool.id}`} />
        </>
      )}
    </details>
  );
}

/** The marks of a tool of an MCP server. */
function TrustTags({ trust }: { trust: "pinned" | "quarantined" }) {
  return (
    <>
      <span className={`tag ${trust === "quarantined" ? "bad" : ""}`}>{trust}</span> <span className="tag effect">untrusted text</span>{" "}
    </>
  );
}
