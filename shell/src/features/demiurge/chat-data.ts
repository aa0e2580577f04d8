/** A chat as the record has it, turned into the messages that the thread shows. */
import type { ThreadMessageLike } from "@assistant-ui/react";
import type { ChatMessage, Finding, JournalRecord, ProposedCall, ToolAnswer, Turn } from "../../sdk";

export const CHAT = "demiurge/Demiurge@1";

/** What the page knows of a call besides what the model proposed. */
export interface CallFacts {
  /** What the call runs with. Null for a caller whose role does not see them. */
  argumentsJson: string | null;
  /** What the model proposed and who changed it, if a person did. */
  proposedJson: string | null;
  changedBy: string;
  /** The untrusted tools whose text the turn had read before. */
  tainted: string[];
  /** `running`, `done`, or as the server says that it ended, such as `rejected`. */
  state: string;
  result: unknown;
  cut: { bytes: number; head: string; ref: string | null } | null;
  /** What the model was told, null for a caller whose role does not see it; `bytes` of a text that is cut. */
  told: { content: string; bytes: number | null; value: unknown; valueBytes: number | null } | null;
  errorCode: string | null;
  message: string;
  replayed: boolean;
  callId: string;
}

/** When an intent of a call began and ended, from the records of the chat. */
export interface CallTime {
  intent: string;
  began_ns: number;
  ended_ns: number | null;
  /** Whether the call waits for a person. */
  waits: boolean;
}

type Part = Exclude<ThreadMessageLike["content"], string>[number];

const ERASED = "This message was erased.";
const NOT_TAKEN = "This answer was not taken: its evidence does not hold.";
const WITHHELD = "(Your role does not see these words.)";

function callPart(call: { id: string; name: string }, key: string, facts: CallFacts): Part {
  return {
    type: "tool-call",
    toolCallId: key,
    toolName: call.name,
    args: {},
    argsText: facts.argumentsJson ?? "",
    result: facts.state === "running" ? undefined : (facts.result ?? null),
    isError: facts.state !== "running" && facts.state !== "done",
    artifact: facts,
  };
}

/** Returns the request ids of a chat's messages, each once, in order. */
export function requestsOf(messages: ChatMessage[]): number[] {
  return [...new Set(messages.map((each) => each.request_id))];
}

/** Returns one message of the user and one of the assistant for each turn. `turn` is the last one as it stands, which
 * knows of results before the conversation does; `streaming` is the text that comes right now. */
export function threadMessages(messages: ChatMessage[], turn: Turn | undefined, streaming: string): ThreadMessageLike[] {
  const turns = new Map<number, { user?: ChatMessage; parts: Part[]; erased: boolean; tainted: Set<string>; findings: Finding[] }>();
  const open = new Map<string, { part: number; parts: Part[]; call: ProposedCall; key: string; answered: boolean }>();

  for (const message of messages) {
    const request = message.request_id;
    const shown = turns.get(request) ?? { parts: [], erased: false, tainted: new Set<string>(), findings: [] };
    turns.set(request, shown);
    if (message.erased) shown.erased = true;
    const { parts } = shown;
    if (message.role === "user") shown.user = message;
    else if (message.role === "assistant") {
      const text = message.erased ? ERASED : (message.text ?? WITHHELD);
      if (text !== "") parts.push({ type: "text", text });
      if (message.refused === true) parts.push({ type: "text", text: `*${NOT_TAKEN}*` });
      shown.findings = message.findings ?? [];
      for (const [place, call] of (message.tool_calls ?? []).entries()) {
        call.tainted?.forEach((tool) => shown.tainted.add(tool));
        const key = `${request}:${parts.length}:${place}:${call.id}`;
        open.set(`${request}:${call.id}`, { part: parts.length, parts, call, key, answered: false });
        parts.push(callPart(call, key, running(call)));
      }
    } else if (message.tool !== undefined) {
      const found = open.get(`${request}:${message.tool.id}`);
      if (found === undefined) continue;
      found.answered = true;
      found.parts[found.part] = callPart(found.call, found.key, ended(found.call, message.tool));
    }
  }
  for (const call of turn?.tool_calls ?? []) {
    const found = open.get(`${turn!.request_id}:${call.id}`);
    if (found !== undefined && call.ok !== null && !found.answered) {
      found.parts[found.part] = callPart(found.call, found.key, ended(found.call, { ...call, ok: call.ok }));
    }
  }

  return [...turns].flatMap(([request, { user, parts, erased, tainted, findings }]) => {
    const isLast = request === turn?.request_id;
    const isRunning = isLast && (turn.status === "running" || turn.status === "awaiting_approval");
    const answer: ThreadMessageLike = {
      id: `a${request}`,
      role: "assistant",
      content: isLast && streaming !== "" ? [...parts, { type: "text", text: streaming }] : parts,
      status: isRunning ? { type: "running" } : { type: "complete", reason: "stop" },
      metadata: { custom: { request, isLast, erased, tainted: [...tainted].sort(), findings } },
    };
    if (user === undefined) return [answer];
    const text = user.erased ? `${ERASED} ${user.erased.why}` : (user.text ?? WITHHELD);
    return [{ id: `u${request}`, role: "user", content: [{ type: "text", text }], metadata: { custom: { user } } }, answer];
  });
}

function proposal(call: ProposedCall) {
  return {
    argumentsJson: call.arguments_json,
    proposedJson: call.proposed_json ?? null,
    changedBy: call.changed_by ?? "",
    tainted: call.tainted ?? [],
  };
}

function running(call: ProposedCall): CallFacts {
  const open = { state: "running", result: undefined, cut: null, told: null, errorCode: null, message: "", replayed: false } as const;
  return { ...proposal(call), ...open, callId: call.id };
}

function ended(call: ProposedCall, answer: ToolAnswer): CallFacts {
  const state = answer.ok ? "done" : (answer.state ?? "failed");
  return {
    ...proposal(call),
    state,
    result: answer.result,
    cut: answer.result_cut === undefined ? null : { ...answer.result_cut, ref: answer.view_ref ?? null },
    told: told(answer),
    errorCode: answer.error_code,
    message: problemTold(answer),
    replayed: answer.replayed === true,
    callId: answer.id,
  };
}

/** Returns when each call ran, by its id: the newest call with an id stands for it. */
export function callTimes(records: JournalRecord[]): Map<string, CallTime> {
  const times = new Map<string, CallTime>();
  const byIntent = new Map<string, CallTime>();
  for (const { kind, body, time_ns } of records) {
    if (kind === "intent" && body?.kind === "tool.call" && typeof body.params?.tool_call_id === "string") {
      const waits = body.approval !== undefined && body.approved === undefined;
      const time = { intent: String(body.id), began_ns: time_ns, ended_ns: null, waits };
      times.set(body.params.tool_call_id, time);
      byIntent.set(time.intent, time);
    } else if (kind === "approval" || kind === "decision") {
      const time = byIntent.get(String(body?.intent));
      if (time === undefined) continue;
      time.waits = false;
      time.began_ns = time_ns; // waiting for a person is not running
    } else if (kind === "receipt") {
      const time = byIntent.get(String(body?.intent));
      if (time === undefined) continue;
      time.waits = false;
      time.ended_ns = time_ns;
    }
  }
  return times;
}

function told({ content, content_cut, value, value_cut }: ToolAnswer): CallFacts["told"] {
  if (content == null) return null;
  return { content, bytes: content_cut?.bytes ?? null, value: value ?? null, valueBytes: value_cut?.bytes ?? null };
}

/** Why a call failed: the safe sentence, or what the model was told where that says more and may be seen. */
function problemTold({ error_code, message, content }: ToolAnswer): string {
  if (content == null || !["validation", "execution"].includes(error_code ?? "")) return message;
  try {
    const told: unknown = JSON.parse(content);
    const said = (told as { message?: unknown } | null)?.message;
    return typeof said === "string" ? said : message;
  } catch {
    return message; // a text that was cut
  }
}
