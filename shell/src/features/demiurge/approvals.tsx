/** The calls that wait, once for the whole shell; the server's clock; and the decisions that the stream told of. */
import { createContext, type ReactNode, useContext, useEffect, useRef, useState } from "react";
import { useStream } from "../../live/stream";
import { type Live, useLive } from "../../live/use-live";
import { type Approval, type Approvals, approvalsGet, type JournalRecord } from "../../sdk";

export interface Decision {
  verdict: "approve" | "reject";
  by: string;
  /** Null for a caller whose role does not see it. */
  reason: string | null;
  time_ns: number;
}

interface Known {
  live: Live<Approvals>;
  /** The decisions that this page has seen, by the id of the call. */
  decisions: Map<string, Decision>;
  addDecisions: (records: JournalRecord[]) => void;
  /** The server's time, in milliseconds. The clock of this machine is not asked. */
  now: () => number;
}

const ApprovalsContext = createContext<Known | null>(null);
const CHANGES = ["intent", "approval", "receipt", "event"];

export function decisionOf(record: JournalRecord): [string, Decision] | null {
  const { kind, body } = record;
  if (kind !== "approval" || typeof body?.intent !== "string") return null;
  const by = String(body.by ?? record.caller?.actor ?? "somebody");
  const reason = typeof body.reason === "string" ? body.reason : null;
  return [body.intent, { verdict: body.verdict, by, reason, time_ns: record.time_ns }];
}

export function ApprovalsProvider({ children }: { children: ReactNode }) {
  const clock = useRef({ server: 0, monotonic: 0 });
  const load = async () => {
    const found = await approvalsGet();
    clock.current = { server: found.now_ns / 1e6, monotonic: performance.now() };
    return found;
  };
  const live = useLive("approvals", load, (record) => CHANGES.includes(record.kind));
  const [decisions, setDecisions] = useState(() => new Map<string, Decision>());

  const addDecisions = (records: JournalRecord[]) => {
    const found = records.map(decisionOf).filter((each) => each !== null);
    if (found.length > 0) setDecisions((old) => new Map([...old, ...found]));
  };
  useStream({ onRecord: (record) => addDecisions([record]) });

  const now = () => clock.current.server + (performance.now() - clock.current.monotonic);
  return <ApprovalsContext value={{ live, decisions, addDecisions, now }}>{children}</ApprovalsContext>;
}

export function useApprovals(): Known {
  const known = useContext(ApprovalsContext);
  if (known === null) throw new Error("A component was shown outside of ApprovalsProvider.");
  return known;
}

/** Returns the server's time, which changes once a second. */
export function useNow(): number {
  const { now } = useApprovals();
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return now();
}

export function isExpired(approval: Approval, now: number): boolean {
  return now >= approval.expires_ns / 1e6;
}
