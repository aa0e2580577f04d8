/** The catalog of prompt tools: the core tools, which are locked, and those that people approved. */
import { useState } from "react";
import { useLive } from "../../live/use-live";
import { moveFocus } from "../../parts/list-keys";
import { Verbatim } from "../../parts/verbatim";
import { Link, navigate, useSearch } from "../../router";
import { type PromptTool, promptToolsGet } from "../../sdk/prompt-tools";
import { PanelState } from "../panel-state";
import { isOfRegistry } from "./review-words";
import { ProposeButton } from "./tool-actions";
import { ARCHETYPES, LAYERS, ROOT, toolHref } from "./tool-words";

/** So many tools are shown at first. */
const SOME = 100;

export function Catalog() {
  const search = useSearch();
  const live = useLive("prompt tools", promptToolsGet, isOfRegistry);
  const chosen = { text: search.get("text") ?? "", archetype: search.get("archetype") ?? "", layer: search.get("layer") ?? "" };
  const filter = (changed: Partial<typeof chosen>) => {
    const given = Object.entries({ ...chosen, ...changed }).filter(([, value]) => value !== "");
    navigate(given.length === 0 ? ROOT : `${ROOT}?${new URLSearchParams(given)}`, { replace: true });
  };
  const choice = (label: string, name: "archetype" | "layer", choices: string[]) => (
    <label>
      {label}{" "}
      <select value={chosen[name]} onChange={(event) => filter({ [name]: event.target.value })}>
        <option value="">all</option>
        {choices.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <div className="filters">
        <label>
          Find <input type="search" dir="auto" value={chosen.text} onChange={(event) => filter({ text: event.target.value })} />
        </label>
        {choice("Archetype", "archetype", ARCHETYPES)}
        {choice("Layer", "layer", Object.keys(LAYERS))}
        <ProposeButton act="new" label="Propose a new tool" />
      </div>
      <PanelState live={live} loading="Loading the prompt tools" empty="This world has no prompt tools." isEmpty={(data) => data.tools.length === 0}>
        {(data) => <Found key={Object.values(chosen).join("\n")} tools={data.tools.filter((tool) => fits(tool, chosen))} all={data.tools.length} />}
      </PanelState>
    </>
  );
}

/** Returns whether a tool has the words of a search, and the archetype and the layer that were chosen. */
function fits(tool: PromptTool, { text, archetype, layer }: { text: string; archetype: string; layer: string }): boolean {
  const words = `${tool.id} ${tool.name} ${tool.usageNotes}`.toLowerCase();
  const isFor = archetype === "" || tool.archetype === archetype;
  return isFor && (layer === "" || tool.layer === layer) && words.includes(text.toLowerCase());
}

function Found({ tools, all }: { tools: PromptTool[]; all: number }) {
  const [count, setCount] = useState(SOME);
  return (
    <>
      <p className="faint" role="status">
        {tools.length.toLocaleString()} of {all.toLocaleString()} prompt tools.
      </p>
      <ul className="tool-list" aria-label="Prompt tools" onKeyDown={moveFocus}>
        {tools.slice(0, count).map((tool) => (
          <li key={tool.id}>
            <Link data-item className="card tool-row" href={toolHref(tool.id)}>
              <span className="title-line">
                <strong>
                  <bdi>
                    <Verbatim text={tool.name} />
                  </bdi>
                </strong>
                <code className="wrap">{tool.id}</code>
                <Badges tool={tool} />
              </span>
              <span className="faint when">
                <bdi>
                  <Verbatim text={tool.usageNotes} />
                </bdi>
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {tools.length > count && (
        <button type="button" onClick={() => setCount(count + SOME)}>
          More prompt tools ({(tools.length - count).toLocaleString()})
        </button>
      )}
    </>
  );
}

export function Badges({ tool }: { tool: PromptTool }) {
  return (
    <span className="badges">
      {tool.locked ? <span className="tag locked">Locked (core)</span> : <span className="tag">{LAYERS[tool.layer]}</span>}
      {tool.version !== null && <span className="tag">version {tool.version}</span>}
      {tool.archetype !== "" && <span className="tag">{tool.archetype}</span>}
      {tool.overrides.length > 0 && <span className="tag">hides that of the layer {tool.overrides.join(", ")}</span>}
    </span>
  );
}
