/** The tools of the world: effect, source, the decision on a call of this caller, and what a tool costs in tokens. */
import { useState } from "react";
import { useLive } from "../live/use-live";
import { toolsAll } from "../sdk";
import { JsonView } from "./json-view";
import { PanelState } from "./panel-state";
import "./panels.css";

const DECISIONS: Record<string, string> = { allow: "allowed", require_approval: "a person decides", deny: "denied" };

export default function ToolsPanel() {
  const live = useLive("tools", toolsAll, (record) => record.kind === "manifest");
  const [text, setText] = useState("");
  return (
    <main className="page wide">
      <h1>Tools</h1>
      <label>
        Find <input type="search" value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <PanelState live={live} loading="Loading the tools" empty="This world has no tools." isEmpty={(data) => data.tools.length === 0}>
        {(data) =>
          data.tools
            .filter((tool) => `${tool.id} ${tool.description}`.toLowerCase().includes(text.toLowerCase()))
            .map((tool) => (
              <details className="card" key={tool.id}>
                <summary>
                  <code>{tool.id}</code> <span className="tag effect">{tool.effect}</span> <span className="tag">{tool.source}</span>{" "}
                  <span className={`state ${tool.decision === "allow" ? "done" : tool.decision === "deny" ? "failed" : "running"}`}>
                    {DECISIONS[tool.decision] ?? tool.decision}
                  </span>{" "}
                  <span className="faint">about {tool.tokens} tokens</span>
                </summary>
                <p dir="auto">{tool.description}</p>
                <p>
                  For you: {DECISIONS[tool.decision] ?? tool.decision}; {tool.why}.
                </p>
                <p className="faint wrap">Spec {tool.spec_hash}</p>
                <JsonView value={tool.input_schema} label={`Schema of ${tool.id}`} />
              </details>
            ))
        }
      </PanelState>
    </main>
  );
}
