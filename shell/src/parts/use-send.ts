/** Sending one thing at a time: a second click sends nothing, and no answer is not taken for a refusal. */
import { useRef, useState } from "react";
import { ApiError, sentence } from "../sdk";

export interface Sending {
  /** What is being sent now. */
  sending: string | undefined;
  /** Why the last one failed; empty if it did not. */
  problem: string;
  /** Sends, and returns whether the server took it. */
  send: (what: string, request: () => Promise<unknown>) => Promise<boolean>;
}

/** `reload` reads again what is shown, after a success and after a refusal. */
export function useSend(reload: () => void): Sending {
  const [sending, setSending] = useState<string>();
  const [problem, setProblem] = useState("");
  const busy = useRef(false);
  const send = async (what: string, request: () => Promise<unknown>) => {
    if (busy.current) return false;
    busy.current = true;
    setSending(what);
    setProblem("");
    let taken = true;
    try {
      await request();
    } catch (error) {
      taken = false;
      const isUnknown = error instanceof ApiError && error.status === 0;
      setProblem(isUnknown ? `${sentence(error)} It is not known whether this was taken: the page reads again by itself.` : sentence(error));
    }
    reload();
    busy.current = false;
    setSending(undefined);
    return taken;
  };
  return { sending, problem, send };
}
