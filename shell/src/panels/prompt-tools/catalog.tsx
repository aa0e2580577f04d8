/** The catalog of prompt tools: the core tools, which are locked, and those that people approved. */
import { useLive } from "../../live/use-live";
import { moveFocus } from "../../parts/list-keys";
import { Verbatim } from "../../parts/verbatim";
import { promptToolsGet } from "../../sdk/prompt-tools";
import { PanelState } from "../panel-state";

export function Catalog() {
  const live = useLive("prompt tools", promptToolsGet, (record) => record.unit.startsWith("sys/ToolRegistry@1"));
  return (
    <PanelState live={live} loading="Loading the prompt tools" empty="This world has no prompt tools." isEmpty={(data) => data.tools.length === 0}>
      {(data) => (
        <ul className="rows" onKeyDown={moveFocus}>
          {data.tools.map((tool) => (
            <li key={tool.id}>
              <Verbatim text={tool.name} /> <code>{tool.id}</code> <span className="tag">{tool.locked ? "Locked (core)" : tool.layer}</span>
            </li>
          ))}
        </ul>
      )}
    </PanelState>
  );
}
