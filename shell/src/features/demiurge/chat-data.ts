/** A chat as the record has it, turned into the messages that the thread shows. */
import type { ThreadMessageLike } from "@assistant-ui/react";
import type { ChatMessage, JournalRecord, ToolAnswer, Turn } from "../../sdk";

export const CHAT = "demiurge/Demiurge@1";

/** What the page knows of a call besides what the model proposed. */
export interface CallFacts {
  /** Null for a caller whose role does not see them. */
  argumentsJson: string | null;
  state: "running" | "done" | "failed" | "cancelled";
  result: unknown;
  cut: { bytes: number; head: string; ref: string | null } | null;
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
}

type Part = Exclude<ThreadMessageLike["content"], string>[number];

const ERASED = "This message was erased.";
const WITHHELD = "(Your role does not see these words.)";

function callPart(call: { id: string; name: string }, key: string, facts: CallFacts): Part {
  return {
    type: "tool-call",
    toolCallId: key,
    toolName: call.name,
    args: {},
    argsText: facts.argumentsJson ?? "",
    result: facts.state === "running" ? undefined : (facts.result ?? null),
    isError: facts.state === "failed",
    artifact: facts,
  };
}

/** Returns one message of the user and one of the assistant for each turn. `turn` is the last one as it stands, which
 * knows of results before the conversation does; `streaming` is the text that comes right now. */
export function threadMessages(messages: ChatMessage[], turn: Turn | undefined, streaming: string): ThreadMessageLike[] {
  const shown: ThreadMessageLike[] = [];
  const answers = new Map<number, Part[]>();
  const open = new Map<string, { part: number; parts: Part[]; call: { id: string; name: string }; key: string; json: string | null; answered: boolean }>();
  const order: number[] = [];

  for (const message of messages) {
    const request = message.request_id;
    if (!answers.has(request)) {
      answers.set(request, []);
      order.push(request);
    }
    const parts = answers.get(request)!;
    if (message.role === "user") continue;
    if (message.role === "assistant") {
      const text = message.erased ? ERASED : (message.text ?? WITHHELD);
      if (text !== "") parts.push({ type: "text", text });
      for (const [place, call] of (message.tool_calls ?? []).entries()) {
        const key = `${request}:${parts.length}:${place}:${call.id}`;
        const facts: CallFacts = running(call.id, call.arguments_json);
        open.set(`${request}:${call.id}`, { part: parts.length, parts, call, key, json: call.arguments_json, answered: false });
        parts.push(callPart(call, key, facts));
      }
    } else if (message.tool !== undefined) {
      const found = open.get(`${request}:${message.tool.id}`);
      if (found === undefined) continue;
      found.answered = true;
      found.parts[found.part] = callPart(found.call, found.key, ended(found.json, message.tool));
    }
  }
  for (const call of turn?.tool_calls ?? []) {
    const found = open.get(`${turn!.request_id}:${call.id}`);
    if (found !== undefined && call.ok !== null && !found.answered) {
      found.parts[found.part] = callPart(found.call, found.key, ended(found.json, { ...call, ok: call.ok }));
    }
  }

  for (const request of order) {
    const user = messages.find((each) => each.request_id === request && each.role === "user");
    if (user !== undefined) {
      const text = user.erased ? `${ERASED} ${user.erased.why}` : (user.text ?? WITHHELD);
      shown.push({ id: `u${request}`, role: "user", content: [{ type: "text", text }], metadata: { custom: { user } } });
    }
    const parts = answers.get(request)!;
    const isLast = request === order[order.length - 1];
    const isRunning = isLast && (turn?.status === "running" || turn?.status === "awaiting_approval");
    const all: Part[] = isLast && streaming !== "" ? [...parts, { type: "text", text: streaming }] : parts;
    shown.push({
      id: `a${request}`,
      role: "assistant",
      content: all,
      status: isRunning ? { type: "running" } : { type: "complete", reason: "stop" },
      metadata: { custom: { request, isLast, erased: messages.some((each) => each.request_id === request && each.erased) } },
    });
  }
  return shown;
}

function running(callId: string, argumentsJson: string | null): CallFacts {
  return { argumentsJson, state: "running", result: undefined, cut: null, errorCode: null, message: "", replayed: false, callId };
}

function ended(
  argumentsJson: string | null,
  answer: ToolAnswer,
): CallFacts {
  const state = answer.ok ? "done" : answer.error_code === "cancelled" ? "cancelled" : "failed";
  return {
    argumentsJson,
    state,
    result: answer.result,
    cut: answer.result_cut === undefined ? null : { ...answer.result_cut, ref: answer.view_ref ?? null },
    errorCode: answer.error_code,
    message: answer.message,
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
      const time = { intent: String(body.id), began_ns: time_ns, ended_ns: null };
      times.set(body.params.tool_call_id, time);
      byIntent.set(time.intent, time);
    } else if (kind === "approval" && body?.verdict === "approve") {
      const time = byIntent.get(String(body.intent));
      if (time !== undefined) time.began_ns = time_ns; // waiting for a person is not running
    } else if (kind === "receipt") {
      const time = byIntent.get(String(body?.intent));
      if (time !== undefined) time.ended_ns = time_ns;
    }
  }
  return times;
}
