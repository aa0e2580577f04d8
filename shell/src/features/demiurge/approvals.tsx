/** The calls that wait, once for the whole shell; the server's clock; and the decisions that the stream told of. */
import { createContext, type ReactNode, useContext, useEffect, useRef, useState } from "react";
import { useStream } from "../../live/stream";
import { type Live, useLive } from "../../live/use-live";
import { type Approval, type Approvals, approvalsGet, type JournalRecord } from "../../sdk";
import { maySend, mayDecide, useSession } from "../../session";
import { type Decision, DecisionLog } from "./decisions";

interface Known {
  live: Live<Approvals>;
  /** The decisions that this page has seen, by the id of the call. */
  decisions: ReadonlyMap<string, Decision>;
  addDecisions: (records: JournalRecord[]) => void;
  addDecision: (id: string, decision: Decision) => void;
  /** The server's time, in milliseconds. The clock of this machine is not asked. */
  now: () => number;
  /** Whether this caller may see which calls wait. */
  mayAsk: boolean;
}

const ApprovalsContext = createContext<Known | null>(null);
const CHANGES = ["intent", "approval", "approval_rule", "decision", "receipt", "event"];

export function ApprovalsProvider({ children }: { children: ReactNode }) {
  const session = useSession();
  const mayAsk = maySend(session) || mayDecide(session);
  const clock = useRef({ server: 0, monotonic: 0 });
  const load = async () => {
    if (!mayAsk) {
      clock.current = { server: Date.now(), monotonic: performance.now() }; // nothing that expires is shown
      return { approvals: [], now_ns: 0 };
    }
    const found = await approvalsGet();
    clock.current = { server: found.now_ns / 1e6, monotonic: performance.now() };
    return found;
  };
  const live = useLive("approvals", load, (record) => mayAsk && CHANGES.includes(record.kind));
  const [log] = useState(() => new DecisionLog());
  const [decisions, setDecisions] = useState<ReadonlyMap<string, Decision>>(() => new Map());

  const show = (found: Map<string, Decision>) => {
    if (found.size > 0) setDecisions((old) => new Map([...old, ...found]));
  };
  const addDecisions = (records: JournalRecord[]) => show(log.read(records));
  useStream({ onRecord: (record) => addDecisions([record]) });

  const now = () => clock.current.server + (performance.now() - clock.current.monotonic);
  const addDecision = (id: string, decision: Decision) => show(new Map([[id, decision]]));
  return (
    <ApprovalsContext value={{ live, decisions, addDecisions, addDecision, now, mayAsk }}>{children}</ApprovalsContext>
  );
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
