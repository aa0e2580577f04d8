/** The paths of the HTTP API as functions. `eventsPost` and `stateGet` are the names that other clients use too. */
import { apiPath, ApiError, get, getHead, type Head, getText, patch, post, postBytes, remove } from "./client";
import type {
  CostReport,
  EffectDecisions,
  FoundRows,
  JournalHead,
  JournalRow,
  RowQuery,
  TraceQuery,
  TraceTree,
  WorkspaceChange,
  WorkspaceEntry,
  WorkspaceVersion,
} from "./panels";
import type {
  Approvals,
  ChatMessage,
  ChatSummary,
  GivenAnswers,
  JournalRecord,
  NewAttachment,
  NewRule,
  Session,
  StandingRule,
  ToolView,
  Turn,
  TurnFailure,
} from "./types";

export * from "./client";
export type * from "./panels";
export type * from "./types";

const part = encodeURIComponent;

/** Bytes of a public result that come with the messages; of a longer one the head comes. */
const MAX_RESULT = 65_536;

export interface AcceptedEvent {
  unit: string;
  seq: number;
  event_hash: string;
}

export function eventsPost(
  schema: string,
  value: unknown,
  { key, idempotencyKey }: { key?: string; idempotencyKey?: string } = {},
): Promise<AcceptedEvent> {
  const headers: Record<string, string> = idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey };
  return post("/api/events", { schema, value, key }, headers);
}

export function stateGet<T = Record<string, unknown>>(module: string, key = "", at?: number): Promise<T> {
  return get(`/api/state/${module}`, { key, at });
}

export const sessionGet = () => get<Session>("/api/session");
export const login = (token: string) => post<void>("/api/login", { token });
export const logout = () => post<void>("/api/logout", {});

export interface ChatsQuery {
  search?: string;
  archived?: boolean;
  before?: number | null;
  limit?: number;
}
export const chatsGet = (query: ChatsQuery = { limit: 1000 }) =>
  get<{ chats: ChatSummary[]; next: number | null }>("/api/chats", { ...query });
export const chatGet = (chat: string) => get<ChatSummary>(`/api/chats/${part(chat)}`);
export const chatPost = (title: string) => post<ChatSummary>("/api/chats", { title });
export const turnGet = (chat: string, requestId: number) => 
  get<Turn>(`/api/chats/${part(chat)}/turns/${requestId}`, { max_result: MAX_RESULT });
export const messagesGet = (chat: string, since = 0) =>
  get<{ messages: ChatMessage[]; failures: TurnFailure[] }>(`/api/chats/${part(chat)}/messages`, { since, max_result: MAX_RESULT });
/** What answers one message, in place of what the chat has. */
export interface MessageTerms {
  model?: string;
  provider?: string;
  tools_ref?: string;
  tool_choice?: "auto" | "none" | "required" | { name: string };
}
export const messagePost = (chat: string, text: string, attachments: NewAttachment[] = [], terms: MessageTerms = {}) =>
  post<{ request_id: number; seq: number }>(`/api/chats/${part(chat)}/messages`, { text, attachments, ...terms });
export const chatRename = (chat: string, title: string) => patch<ChatSummary>(`/api/chats/${part(chat)}`, { title });
export const chatArchive = (chat: string, archived: boolean) => patch<ChatSummary>(`/api/chats/${part(chat)}`, { archived });
/** Erases what was said in a chat for good. `done` is false while something that can't be erased holds its words. */
export const chatDelete = (chat: string, why: string) =>
  remove<{ done: boolean }>(`/api/chats/${part(chat)}?why=${encodeURIComponent(why)}`);
export const chatExportPath = (chat: string, format: "json" | "markdown") => apiPath(`/api/chats/${part(chat)}/export`, { format });
/** Makes a chat with the history of an exported one. */
export const chatImport = (exported: unknown) => post<ChatSummary>("/api/chats/import", exported);
export const chatCancel = (chat: string) => post<ChatSummary>(`/api/chats/${part(chat)}/cancel`, {});

export const approvalsGet = async (): Promise<Approvals> => {
  const { approvals, now_ns } = await get<Approvals>("/api/approvals");
  return { approvals: approvals.map((each) => ({ ...each, expires_ns: each.expires_ns ?? Infinity })), now_ns };
};
export const answersPost = (id: string, answers: GivenAnswers) => post<{ id: string }>(`/api/approvals/${id}/answer`, { answers });
export const answerPost = (id: string, answer: string) => post<{ id: string }>(`/api/approvals/${id}/answer`, { answer });
/** With `argumentsJson` the call runs with these arguments in place of the proposed ones. */
export const approvalPost = (id: string, decision: "approve" | "reject", reason: string, argumentsJson?: string) =>
  post<{ id: string; decision: string }>(`/api/approvals/${id}`, { decision, reason, arguments_json: argumentsJson });
export const rulePost = (id: string, rule: NewRule) => post<{ id: string }>(`/api/approvals/${id}/rule`, rule);
export const rulesGet = () => get<{ rules: StandingRule[] }>("/api/approvals/rules");
export const ruleDelete = (id: string) => remove(`/api/approvals/rules/${part(id)}`);

export interface JournalQuery {
  from?: number;
  limit?: number;
  unit?: string;
  kind?: string;
}
export const journalGet = (query: JournalQuery = {}) =>
  get<{ records: JournalRecord[]; next: number | null }>("/api/journal", { ...query });
export const journalVerify = (seal?: string) => post<Record<string, any>>("/api/journal/verify", { seal: seal ?? null });

export const journalRows = (from: number, limit: number, unit?: string) =>
  get<{ rows: JournalRow[] }>("/api/journal/rows", { from, limit, unit });
export const journalSearch = (query: RowQuery) => get<FoundRows>("/api/journal/search", { ...query });

/** The units whose names begin so; the one of exactly this name is the first. */
export const journalHead = (prefix = "", limit = 1) => get<JournalHead>("/api/journal/head", { prefix, limit });
export const traceGet = (query: TraceQuery) => get<{ trees: TraceTree[]; now_ns: number }>("/api/trace", { ...query });
export const costGet = (days: number) => get<CostReport>("/api/cost", { days });
/** Keeps the tools that can be called: the catalog lists prompt tools too. */
const callable = <T extends { tools: ToolView[] }>(catalog: T): T => ({
  ...catalog,
  tools: catalog.tools.filter((tool) => tool.kind !== "prompt"),
});

export const toolsAll = async () =>
  callable(await get<{ tools: ToolView[]; counted_records: number | null }>("/api/tools", { all: true, uses: true }));
export const effectExplain = (effect: string) => get<EffectDecisions>("/api/policy/explain", { effect });
export const workspacesGet = () => get<{ workspaces: { workspace: string; version: number }[] }>("/api/workspace");
export const workspaceVersions = (name: string) =>
  get<{ versions: WorkspaceVersion[] }>(`/api/workspace/${part(name)}/versions`);
export const workspaceTree = (name: string, version: number, path = "") =>
  get<{ entries: WorkspaceEntry[] }>(`/api/workspace/${part(name)}/tree`, { version, path });
export const workspaceDiff = (name: string, old: number, version: number) =>
  get<{ changes: WorkspaceChange[] }>(`/api/workspace/${part(name)}/diff`, { old, new: version });

export const toolsGet = async () =>
  callable(await get<{ tools: ToolView[]; tools_ref: string | null }>("/api/tools"));
export const toolGet = (id: string) => get<ToolView>(`/api/tools/${part(id)}`);
export const infoGet = () => get<Record<string, any>>("/api/info");
export const manifestGet = () => get<Record<string, any>>("/api/manifest");
export const defsGet = () => get<{ definitions: { kind: string; name: string; hash: string }[] }>("/api/defs");
export const policyExplain = (tool: string) => get<Record<string, any>>("/api/policy/explain", { tool });

export const blobPath = (ref: string) => `/api/blob/${ref}`;
/** The first bytes of a blob; an empty one has no range that could be asked for. */
export const blobHead = async (ref: string, bytes: number): Promise<Head> => {
  try {
    return await getHead(blobPath(ref), bytes);
  } catch (error) {
    if (error instanceof ApiError && error.status === 416) return { text: "", shown: 0, size: 0, type: "text/plain" };
    throw error;
  }
};
/** Who erased a blob, when and why; null if no record says it. */
export const erasureOf = async (ref: string): Promise<{ actor: string; why: string; time_ns: number } | null> => {
  const { records } = await journalGet({ unit: "sys/World@1/erasures", kind: "erased", limit: 1000 });
  const found = records.findLast((record) => record.body?.ref === ref);
  if (found === undefined) return null;
  const why = typeof found.body.why === "string" ? found.body.why : "your role does not see the reason";
  return { actor: String(found.body.actor ?? ""), why, time_ns: found.time_ns };
};
export const blobText = (ref: string) => getText(blobPath(ref));
export const blobPost = (bytes: Blob) => postBytes<{ hash: string }>("/api/blob", bytes);

export const workspaceFile = (name: string, path: string, version?: number) =>
  getText(`/api/workspace/${part(name)}/file`, { path, version });

/** Asks for a call of a tool without a chat; returns the call's id. */
export const toolCall = async (tool: string, argumentsJson: string): Promise<string> => {
  const id = `call_${[...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const proposed = JSON.stringify({ arguments_json: argumentsJson, id, name: tool });
  const { hash } = await blobPost(new Blob([proposed]));
  await eventsPost("demiurge/CallAsked@1", { call_id: id, tool, call_ref: hash });
  return id;
};
