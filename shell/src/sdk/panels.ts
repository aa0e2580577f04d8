/** What the server answers to the panels. */

import type { BudgetUsed } from "./types";

export interface JournalHead {
  length: number;
  units: { unit: string; records: number; hash: string }[];
}

/** A record in a few words. */
export interface JournalRow {
  position: number;
  unit: string;
  seq: number;
  kind: string;
  time_ns: number;
  hash: string;
  redacted: boolean;
  says: string;
  state: string | null;
  why: string | null;
  /** The person whose decision the state is; null for none. */
  by: string | null;
  refs: number;
  /** Of a call in a search for calls: when it ended; null while it goes on. */
  ended_ns?: number | null;
}

export interface RowQuery {
  text?: string;
  unit?: string;
  kind?: string;
  attention?: boolean;
  calls?: boolean;
  before?: number;
  limit?: number;
}

export interface FoundRows {
  rows: JournalRow[];
  before: number | null;
  looked_at: number;
}

export type TraceQuery = { chat: string; count?: number } | { event_hash: string } | { unit: string; seq: number };

export interface TracePhase {
  phase: "person" | "queued" | "running";
  from_ns: number;
  to_ns: number | null;
}

export interface TraceNode {
  unit: string;
  seq: number;
  kind: string;
  cause: number | { unit: string; seq: number } | null;
  depth: number;
  time_ns: number;
  says: string;
  state: string | null;
  why: string | null;
  /** The person whose decision the state is; null for none. */
  by: string | null;
  phases?: TracePhase[];
  arguments_json?: string | null;
  arguments_problem?: string;
  /** Of a call that has ended: the blob with the redacted result; null of a failure. */
  view_ref?: string | null;
  /** What the model was told; absent for a caller whose role does not see it, and for a call that has not ended. */
  content?: string;
  /** `content` is the beginning of a text of so many characters, which is in the message `message_ref`. */
  content_cut?: number;
  message_ref?: string;
  /** The whole value that the tool returned; null if there is none, or none beside `content`. */
  value?: unknown;
  /** The bytes of a value that is too long to be here. It is in the blob `value_ref`, or in the message. */
  value_cut?: number;
  value_ref?: string | null;
  /** The untrusted tools whose text the turn had read before this decision. */
  tainted?: string[];
}

export interface TraceTree {
  unit: string;
  seq: number;
  event_hash: string | null;
  state: "done" | "failed" | "waiting" | "running";
  why: string | null;
  nodes: TraceNode[];
}

/** A sum of costs; `cost_usd` is null when an answer has no known cost. */
export interface CostSum {
  answers: number;
  unpriced: number;
  prompt_tokens: number;
  completion_tokens: number;
  cost_usd: string | null;
  known_usd: string;
}

export interface CostReport {
  since: string;
  until: string;
  total: CostSum;
  by_chat: (CostSum & { chat: string | null; unit: string; name: string })[];
  by_day: (CostSum & { day: string })[];
  by_model: (CostSum & { model: string })[];
  by_tool: (CostSum & { tool: string | null; shared: number; calls: number })[];
  budgets: (BudgetUsed & { chat: string | null; unit: string; name: string })[];
}

export interface EffectDecisions {
  effect: string;
  cap_type: string;
  origins: string[];
  changes: boolean;
  grants: { cap: string; params: unknown; expiry_ns: number | null }[];
  decisions: { origin: { kind: string; name: string | null }; cap: string | null; decision: string; why: string }[];
}

export interface WorkspaceVersion {
  version: number;
  owner: string;
  created_ns: number;
}

export interface WorkspaceEntry {
  path: string;
  kind: "file" | "dir";
  size: number;
  hash: string;
}

export interface WorkspaceChange {
  path: string;
  old_hash: string | null;
  new_hash: string | null;
}
