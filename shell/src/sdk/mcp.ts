/** MCP servers: what the server answers, and the paths as functions. */
import { get, post, remove } from "./client";

/** One difference between the trusted definition of a tool and the one that its server lists now. */
export interface DefinitionChange {
  place: string;
  before: string | null;
  after: string | null;
}

export type Effect = "read_only" | "state_change" | "external_side_effect";
export type Rule = "ask" | "allow";

export interface McpTool {
  kind: "tool" | "prompt" | "resource" | "template";
  name: string;
  tool_id: string;
  state: "trusted" | "quarantined" | "new" | "gone";
  rule: Rule | null;
  /** The level that a person named; null: the server's hints decide. */
  effect: Effect | null;
  effect_by_server: Effect | null;
  counted_effect: Effect;
  public: string[] | null;
  pin: string | null;
  found_pin: string | null;
  found_at_ms: number | null;
  by: string | null;
  trusted_at_ms: number | null;
  changes: DefinitionChange[];
  description: string;
  /** What the server lists now, as the protocol writes it; null in a list. */
  definition: Record<string, unknown> | null;
  problem: string | null;
}

export interface McpServer {
  name: string;
  transport: "stdio" | "http";
  target: string;
  settings: Record<string, any>;
  state: "not_adopted" | "idle" | "connected" | "failed";
  is_local: boolean;
  problem: string | null;
  /** The last lines that its process wrote to its standard error before it failed. */
  last_words: string[];
  /** What it said when it listed its tools last; empty before. */
  protocol: string;
  server_name: string;
  server_version: string;
  instructions: string;
  problems: string[];
  listed_at_ms: number | null;
  added_by: string;
  added_at_ms: number;
  tools: McpTool[];
}

const path = (name: string, what = "") => `/api/mcp/${encodeURIComponent(name)}${what}`;

export const mcpServersGet = () => get<{ servers: McpServer[] }>("/api/mcp");
export const mcpServerGet = (name: string) => get<McpServer>(path(name));
/** Trusts definitions: `tools` are the pins that were read, by tool id. */
export const mcpTrust = (name: string, given: { tools: Record<string, string>; rule: Rule; effect: Effect | null; public: string[] }) =>
  post<McpServer>(path(name, "/trust"), given);
export const mcpUntrust = (name: string, tools: string[] | null) => post<McpServer>(path(name, "/untrust"), { tools });
/** Has the server list its tools now, which may start it. */
export const mcpRefresh = (name: string) => post<McpServer>(path(name, "/refresh"), {});
export const mcpAdd = (given: { name: string; url: string }) => post<McpServer>("/api/mcp", given);
export const mcpRemove = (name: string) => remove(path(name));
