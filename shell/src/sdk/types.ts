/** What the server answers. A field that is missing in an older record is null. */

export interface Session {
  actor: string;
  tenant: string;
  roles: string[];
  provider: string;
  model: string;
  csrf: string;
}

export interface ChatSummary {
  chat_id: string;
  /** Empty for a chat without a title. */
  title: string;
  /** What the chat is called: its title, or for want of one "Untitled, 24 Nov 15:38". */
  name: string;
  messages: number;
  last_request_id: number;
  status: "new" | "running" | "done" | "failed" | "awaiting_approval";
  waiting: boolean;
  archived: boolean;
}

export interface ProposedCall {
  id: string;
  name: string;
  /** What the call runs with. Null for a caller whose role does not see the arguments. */
  arguments_json: string | null;
  /** What the model proposed, if a person changed it. */
  proposed_json?: string;
  changed_by?: string;
  /** The untrusted tools whose text the turn had read before. */
  tainted?: string[];
}

export interface ToolAnswer {
  id: string;
  name: string;
  ok: boolean;
  error_code: string | null;
  message: string;
  /** The redacted result: what everybody may see. */
  result: unknown;
  /** The beginning of a result that is too long to be sent with the messages. */
  result_cut?: { bytes: number; head: string };
  /** What the model was told; null or absent for a caller whose role does not see it. */
  content?: string | null;
  /** `content` is the beginning of a text of so many bytes. */
  content_cut?: { bytes: number };
  /** The whole value that the tool returned, for the same callers; null if there is none beside `content`. */
  value?: unknown;
  value_cut?: { bytes: number };
  view_ref?: string | null;
  replayed: boolean | null;
  /** How the call ended, such as `ok` or `rejected`; null while it waits or runs. */
  state: string | null;
}

/** Why a turn failed. */
export interface TurnFailure {
  request_id: number;
  code: string;
  message: string;
}

/** Only `type` (`image` or `audio`) is there for a caller whose role does not see attachments. */
export interface Attachment {
  type: string;
  mime?: string;
  bytes_ref?: string;
}

export interface NewAttachment {
  mime: string;
  bytes_ref: string;
}

export interface ChatMessage {
  request_id: number;
  role: "user" | "assistant" | "tool" | "system";
  ref: string;
  /** Null for a caller whose role does not see it. */
  text: string | null;
  tool_calls?: ProposedCall[];
  tool?: ToolAnswer;
  attachments?: Attachment[];
  erased?: { actor: string; why: string; at_ms: number };
  /** The citations of an answer that do not hold. */
  findings?: Finding[];
  /** Whether the answer was not taken because of its findings. */
  refused?: boolean;
  /** Whether the message came with an imported history. */
  imported?: boolean;
}

/** A citation of an answer that does not hold: its line from 1, and what is wrong with it. */
export interface Finding {
  line: number;
  code: string;
  detail: string;
  message: string;
}

/** A turn as it stands. A number that nobody knows is null, never 0. */
export interface Turn {
  status: "running" | "done" | "awaiting_approval" | "failed";
  request_id: number;
  text: string;
  tool_calls: (ProposedCall & Omit<ToolAnswer, "ok"> & { ok: boolean | null })[];
  error_code: string | null;
  message: string;
  prompt_tokens: number;
  completion_tokens: number;
  cost_usd: string | null;
  finish_reason: string | null;
  budgets: BudgetUsed[];
}

/** A limit of a budget, of which much is used; `says` tells a person so. */
export interface BudgetUsed {
  account: "run" | "unit" | "model_runs";
  dimension: string;
  used: number;
  limit: number;
  unpriced: number;
  says: string;
}

/** What a question of the model asks. */
export interface Asked {
  question: string;
  choices: string[] | null;
  allow_other: boolean;
}

/** A field of a form that a tool asks a person to fill in. Its words are the tool's, or its server's. */
export interface InputField {
  name: string;
  kind: "text" | "number" | "integer" | "boolean" | "choice" | "choices";
  title: string;
  description: string;
  required: boolean;
  default: string | number | boolean | string[] | null;
  choices: { value: string; title: string }[];
  format: string;
  least: number | null;
  most: number | null;
}

/** A question of a tool: a form, an address that the person opens, or plain text. */
export interface InputQuestion {
  key: string;
  kind: "form" | "url" | "text";
  message: string;
  url: string | null;
  host: string;
  fields: InputField[];
}

/** What a tool asks half-way. `server` is empty for a tool's own words. */
export interface AskedInput {
  tool: string;
  server: string;
  leg: number;
  questions: InputQuestion[];
}

export type GivenAnswers = Record<string, { action: "accept" | "decline" | "cancel"; content?: Record<string, unknown> }>;

export interface Approval {
  id: string | null;
  unit: string;
  chat_id: string | null;
  title: string;
  tool: string;
  effect: string;
  /** The words of the card, which the terminal shows too. */
  card: { asker: string; description: string; effect: string; why: string };
  tool_call_id: string;
  arguments_json: string | null;
  damaged: string | null;
  /** True of a call that this caller may not decide; its arguments are left out. */
  withheld?: boolean;
  actor: string;
  rules: Record<string, unknown>[];
  rule_digest: string;
  /** The MCP server that the tool is of; null for any other tool. */
  server: string | null;
  trust: "pinned" | "quarantined" | null;
  /** The untrusted tools whose text the turn has read, if the policy asks because of them. */
  tainted?: string[];
  asked_ns: number | null;
  /** Infinity for a question, which never expires. */
  expires_ns: number;
  /** Null for a call that waits for an approval, and for a caller whose role does not see the question. */
  asks: Asked | null;
  /** The questions of a tool that asks half-way; null for any other call. */
  input: AskedInput | null;
}

/** How an argument of a further call has to be: equal to a value, a text like `notes/*`, or anything. */
export type ArgumentForm = { equals: unknown } | { like: string } | { any: true };

export interface NewRule {
  pattern: Record<string, ArgumentForm>;
  count: number;
  lasts_s: number;
  reason: string;
}

export interface StandingRule {
  id: string;
  unit: string;
  tool: string;
  actor: string;
  /** Null for a caller whose role does not see it. */
  pattern_json: string | null;
  left: number;
  expires_ns: number;
  by: string;
  reason: string;
  at_ms: number;
}

export interface Approvals {
  approvals: Approval[];
  now_ns: number;
}

export interface JournalRecord {
  position: number;
  unit: string;
  seq: number;
  kind: string;
  cause: number | null;
  time_ns: number;
  caller: { actor: string; roles: string[]; transport: string } | null;
  hash: string;
  refs: string[];
  redacted: boolean;
  body: Record<string, any>;
}

export interface ToolView {
  kind?: "callable" | "prompt";
  id: string;
  description: string;
  /** What a model reads after the description; "" for none. */
  details: string;
  effect: string;
  decision: string;
  /** `shipped`, `yours`, or `mcp NAME` for the MCP server NAME. */
  source: string;
  /** Of a tool of an MCP server; null for any other tool. */
  trust: "pinned" | "quarantined" | null;
  tokens: number;
  spec_hash: string;
  input_schema: Record<string, unknown>;
  why: string;
  calls?: number | null;
  last_called_ns?: number | null;
}

/** What an effect shows while it runs. */
export interface Frame {
  unit: string;
  intent: string;
  type: string;
  delta?: string;
  seq?: number;
  kind?: string;
  /** Of `status`: what a model does, and a word about it, such as how much of the prompt it has read. */
  phase?: string;
  label?: string | null;
  /** Of `tool_progress`. */
  tool_call_id?: string;
  done?: number;
  total?: number | null;
  message?: string;
}

/** A call that a person made. */
export interface CallState {
  tool: string;
  outcome: { ok: boolean; error_code: string | null; message: string; result_ref: string | null; view_ref: string | null } | null;
}
