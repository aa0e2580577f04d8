/** The words of the catalog, and the addresses of its pages. */
import type { Layer, PromptTool } from "../../sdk/prompt-tools";

export const ROOT = "/prompt-tools";

const part = encodeURIComponent;
export const toolHref = (id: string) => `${ROOT}/tools/${part(id)}`;
/** The form of a proposal: of a new tool, or of a tool that is copied, changed or deleted. */
export const proposeHref = (act: "new" | "copy" | "change" | "delete", id = "") =>
  act === "new" ? `${ROOT}/propose` : `${ROOT}/propose/${act}/${part(id)}`;

export const ARCHETYPES = ["Any", "Chief", "Planner", "Writer", "Editor", "Critic", "Continuity"];
export const SCOPES = ["selection", "file", "project"];

export const LAYERS: Record<Layer, string> = { global: "global", user: "user", project: "project" };

/** Why a core tool can neither be changed nor deleted. */
export const LOCKED = "This is a core tool: nobody can change or delete it. Propose a copy with an id of its own.";

/** Returns an id for a copy that no tool of the catalog has. */
export function copyId(id: string, tools: PromptTool[]): string {
  const taken = new Set(tools.map((tool) => tool.id));
  for (let number = 1; ; number++) {
    const end = number === 1 ? "_custom" : `_custom_${number}`;
    const made = `${id.slice(0, 48 - end.length)}${end}`;
    if (!taken.has(made)) return made;
  }
}
