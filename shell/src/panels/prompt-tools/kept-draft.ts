/** A draft that is kept in this tab while it is written, so that a reload loses nothing. */
import { useEffect, useState } from "react";
import type { Draft } from "./proposal-draft";

interface Kept {
  /** The digest of what the draft began with. */
  began: string;
  draft: Draft;
}

function read(key: string): Kept | null {
  const text = sessionStorage.getItem(key);
  return text === null ? null : JSON.parse(text);
}

export interface KeptDraft {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  /** Whether it was begun before this page was opened. */
  isOld: boolean;
  /** Whether what it began with has another text now. */
  isOutdated: boolean;
  forget: () => void;
}

/** `start` is what the draft begins with, and `began` the digest of that. */
export function useKeptDraft(key: string, start: Draft, began: string): KeptDraft {
  const [kept, setKept] = useState(() => read(key));
  const [isOld, setOld] = useState(kept !== null);
  useEffect(() => {
    if (kept === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(kept));
  }, [key, kept]);
  return {
    draft: kept?.draft ?? start,
    change: (part) => setKept((old) => ({ began: old?.began ?? began, draft: { ...(old?.draft ?? start), ...part } })),
    isOld: isOld && kept !== null,
    isOutdated: kept !== null && kept.began !== began,
    forget: () => {
      sessionStorage.removeItem(key); // also where the page is left at once
      setKept(null);
      setOld(false);
    },
  };
}
