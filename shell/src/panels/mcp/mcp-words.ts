/** The words for MCP servers and their tools, and the records that change them. */
import type { JournalRecord } from "../../sdk";
import type { Effect, McpServer, McpTool, Rule } from "../../sdk/mcp";

/** Returns the state of a server in words. */
export function stateText(server: McpServer): string {
  if (server.state === "not_adopted") return "not adopted here";
  return server.state === "idle" && server.listed_at_ms === null ? "never asked" : server.state;
}

export const TOOL_WORDS: Record<McpTool["state"], string> = {
  trusted: "trusted, pinned",
  quarantined: "quarantined",
  new: "not trusted",
  gone: "gone",
};

export const EFFECT_WORDS: Record<Effect, string> = {
  read_only: "only reads",
  state_change: "changes state",
  external_side_effect: "acts outside",
};

export const RULE_WORDS: Record<Rule, string> = {
  ask: "a person is asked before each call",
  allow: "nobody is asked",
};

/** The class of a state's colour. */
export function stateClass(state: McpServer["state"] | McpTool["state"]): string {
  if (state === "connected" || state === "trusted") return "done";
  return state === "failed" || state === "quarantined" ? "failed" : state === "idle" ? "" : "running";
}

/** Returns how many tools, and how many prompts and resources, of a server are in which state. */
export function countsText(server: McpServer): string {
  const count = (state: McpTool["state"]) => server.tools.filter((tool) => tool.state === state).length;
  if (server.tools.length === 0) return server.listed_at_ms === null ? "its tools are not known yet" : "no tools";
  const trusted = (some: McpTool[], what: string) =>
    `${some.filter((tool) => tool.state === "trusted").length} of ${some.length} ${what} trusted`;
  const tools = server.tools.filter((tool) => tool.kind === "tool");
  const others = server.tools.filter((tool) => tool.kind !== "tool");
  const parts = [trusted(tools, "tools")];
  if (others.length > 0) parts.push(trusted(others, "prompts and resources"));
  if (count("quarantined") > 0) parts.push(`${count("quarantined")} quarantined`);
  if (count("gone") > 0) parts.push(`${count("gone")} gone`);
  return parts.join(", ");
}

/** Returns whether a record is of an MCP server. */
export const isOfServers = (record: JournalRecord) => record.unit.startsWith("sys/McpServer@1/");
