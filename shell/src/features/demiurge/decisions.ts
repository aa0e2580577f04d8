/** What people decided on calls, as the records of the journal say it. */
import { stateText } from "../../parts/call-state";
import { ApiError, type JournalRecord } from "../../sdk";

export interface Decision {
  /** `rule`: a standing rule allows the call. `answer`: a person answered a question. `end`: the wait for an answer was
   * over, and the call went on without one. */
  verdict: "approve" | "edit" | "reject" | "rule" | "answer" | "end";
  by: string;
  /** Null for a caller whose role does not see it. */
  reason: string | null;
  time_ns: number;
  /** The address of the changed call. */
  changedCall?: string;
  /** The address of the answer. */
  answer?: string;
  /** The record of the decision. */
  place?: { unit: string; seq: number };
  /** How the call ended, in words; undefined while it is not over. */
  end?: string;
}

const VERDICTS: Record<string, Decision["verdict"]> = { approved: "approve", edited: "edit", rejected: "reject", answered: "answer", ended: "end" };
const GOES_ON = ["approve", "answer", "end"];

/** Reads decisions from records, which may come more than once. */
export class DecisionLog {
  private known = new Map<string, Decision>();
  /** The standing rules that were made, by the place of their record: the decision that follows names it as its cause. */
  private rules = new Map<string, Decision>();
  /** The id of the call that was asked about, by that of the changed call that runs in its place. */
  private proposed = new Map<string, string>();

  /** Returns the decisions that these records tell or change, by the id of the call. */
  read(records: JournalRecord[]): Map<string, Decision> {
    const found = new Map<string, Decision>();
    for (const record of records) {
      for (const id of this.readOne(record)) {
        const decision = this.known.get(id);
        if (decision !== undefined) found.set(id, decision);
      }
    }
    return found;
  }

  private readOne(record: JournalRecord): string[] {
    const { kind, body, unit, seq } = record;
    const intent = String(body?.intent ?? body?.id ?? "");
    const place = { unit, seq };
    const reason = typeof body?.reason === "string" ? body.reason : null;
    const by = String(body?.by ?? record.caller?.actor ?? "somebody");
    if (kind === "approval") {
      const changedCall = typeof body.call_ref === "string" ? body.call_ref : undefined;
      const answer = typeof body.answer_ref === "string" ? body.answer_ref : undefined;
      const verdict = changedCall !== undefined ? "edit" : GOES_ON.includes(body.verdict) ? body.verdict : "reject";
      return this.add(intent, { verdict, by, reason, time_ns: record.time_ns, changedCall, answer, place });
    }
    if (kind === "approval_rule") {
      this.rules.set(`${unit}/${seq}`, { verdict: "rule", by, reason, time_ns: record.time_ns, place });
    } else if (kind === "decision" && body.verdict === "allow") {
      const rule = this.rules.get(`${unit}/${record.cause}`);
      if (rule !== undefined) return this.add(intent, rule);
    } else if (kind === "intent" && body.edited_from !== undefined) {
      const proposed = String(body.edited_from.intent);
      this.proposed.set(intent, proposed);
      const decision = this.known.get(proposed);
      if (decision !== undefined) return this.add(intent, decision);
    } else if (kind === "intent" && body.approved?.rule !== undefined) {
      const { by, at_ms, reason } = body.approved;
      return this.add(intent, {
        verdict: "rule",
        by: String(by),
        reason: typeof reason === "string" ? reason : null,
        time_ns: at_ms * 1e6,
        place,
      });
    } else if (kind === "receipt") {
      return [intent, this.proposed.get(intent) ?? ""].flatMap((id) => {
        const decision = this.known.get(id);
        return decision === undefined ? [] : this.add(id, { ...decision, end: endOf(body) });
      });
    }
    return [];
  }

  private add(id: string, decision: Decision): string[] {
    this.known.set(id, { end: this.known.get(id)?.end, ...decision });
    return [id];
  }
}

function endOf(receipt: Record<string, any>): string {
  const { ok, error_code, code } = receipt.payload ?? {};
  if (receipt.status === "ok" && ok === true) return "done";
  const why = String(error_code ?? code ?? receipt.status);
  return why === "unknown_outcome" ? stateText(why) : why === "cancelled" ? stateText("stopped") : `failed (${why})`;
}

/** Returns the decision of somebody who was first, as the server told it; null for another error. */
export function decisionInError(error: unknown): Decision | null {
  if (!(error instanceof ApiError) || error.code !== "decided") return null;
  const { by, at_ms, verdict, reason } = error.details;
  const known = VERDICTS[String(verdict)];
  if (known === undefined || typeof at_ms !== "number") return null;
  return { verdict: known, by: String(by), reason: typeof reason === "string" ? reason : null, time_ns: at_ms * 1e6 };
}
