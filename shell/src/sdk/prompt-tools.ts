/** The catalog of prompt tools: what the server answers, and the paths as functions. */
import { get, post } from "./client";
import type { FieldDifference } from "./review";

export type Layer = "global" | "user" | "project";

/** A prompt tool of the catalog, with its text. */
export interface PromptTool {
  id: string;
  name: string;
  archetype: string;
  scope: string;
  usageNotes: string;
  goals: string;
  guardrails: string;
  prompt: string;
  layer: Layer;
  /** True of a core tool, which nobody can change. */
  locked: boolean;
  digest: string;
  /** Null for a core tool. */
  version: number | null;
  /** The layers whose tool of the same id it hides. */
  overrides: Layer[];
  approved_by: string | null;
  approved_at_ms: number | null;
  proposal: string | null;
}

export interface PromptToolVersion {
  tool: string;
  layer: Exclude<Layer, "global">;
  version: number;
  kind: "new" | "modify" | "delete";
  digest: string;
  snapshot: string;
  proposal: string;
  revision: number;
  approved_by: string;
  at_ms: number;
  is_live: boolean;
}

const path = (id: string, what = "") => `/api/prompt-tools/${encodeURIComponent(id)}${what}`;

export const promptToolsGet = () => get<{ tools: PromptTool[] }>("/api/prompt-tools");
export const promptToolGet = (id: string) => get<PromptTool>(path(id));
/** The approved versions in all layers, newest first. A core tool has none: `core_tool_locked`. */
export const toolHistory = (id: string) => get<{ tool: string; versions: PromptToolVersion[] }>(path(id, "/history"));
/** The document of an approval: the tool, who proposed, reviewed and approved it, and when. */
export const toolVersion = (id: string, version: number, layer: string) =>
  get<Record<string, any>>(path(id, `/versions/${version}`), { layer });
export const toolVersionDiff = (id: string, old: number, version: number, layer: string) =>
  get<{ fields: FieldDifference[] }>(path(id, "/diff"), { old, new: version, layer });
/** Proposes an approved version again. */
export const rollbackPost = (id: string, given: { version: number; rationale: string; layer: string }) =>
  post<{ id: string }>(path(id, "/rollback"), given);
