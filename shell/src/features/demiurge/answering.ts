/** Sends a person's answer to a question, and says what became of it. */
import { type RefObject, useRef, useState } from "react";
import { ApiError, type Approval, journalGet, sentence } from "../../sdk";
import { useApprovals } from "./approvals";

interface Answering {
  /** What is being sent, as `send` was told; undefined while nothing is. */
  sending: string | undefined;
  problem: string;
  /** Sentences about fields, by their names, if the server refused the answer because of them. */
  fieldProblems: Record<string, string>;
  send: (what: string, request: (id: string) => Promise<unknown>) => Promise<void>;
}

/** What is pressed is decided when the server has recorded it, not before. `inside`: an element of the card. */
export function useAnswering(approval: Approval, inside: RefObject<HTMLElement | null>): Answering {
  const { live, addDecisions } = useApprovals();
  const [sending, setSending] = useState<string>();
  const [problem, setProblem] = useState("");
  const [fieldProblems, setFieldProblems] = useState<Record<string, string>>({});
  const busy = useRef(false);

  const send = async (what: string, request: (id: string) => Promise<unknown>) => {
    if (busy.current || approval.id === null) return;
    busy.current = true;
    setSending(what);
    setProblem("");
    setFieldProblems({});
    try {
      await request(approval.id);
      inside.current?.closest<HTMLElement>("[data-approval]")?.focus();
    } catch (error) {
      const fields = error instanceof ApiError && error.code === "bad_answer" ? error.details.fields : undefined;
      if (fields !== undefined) setFieldProblems(fields as Record<string, string>);
      setProblem(await problemOf(error));
    }
    live.reload();
    busy.current = false;
    setSending(undefined);
  };

  /** Asks the server before it says that an answer failed: it may have been lost on its way, or somebody was first. */
  const problemOf = async (error: unknown): Promise<string> => {
    try {
      const { records } = await journalGet({ unit: approval.unit, kind: "approval", limit: 1000 });
      addDecisions(records);
      if (records.some((record) => record.body?.intent === approval.id)) return "";
    } catch {
      return `${sentence(error)} The answer is not known to have been taken; look again when the server is back.`;
    }
    return error instanceof ApiError && error.code === "no_approval" ? "This question does not wait any more." : sentence(error);
  };

  return { sending, problem, fieldProblems, send };
}
