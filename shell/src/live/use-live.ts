/** Data of the server that a component shows, read again whenever a record says that they changed. */
import { useEffect, useRef, useState } from "react";
import type { JournalRecord } from "../sdk";
import { useStream } from "./stream";

export interface Live<T> {
  /** What was read last; it stays when a later read fails. */
  data: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
}

interface Shown<T> {
  key: string;
  data: T | undefined;
  error: unknown;
}

const SETTLE_MS = 60;

/** Reads something now, when `concerns` says so of a record, and when the stream begins anew. One read runs at a time.
 * `key` names what is read: the data of another key are forgotten. */
export function useLive<T>(key: string, load: () => Promise<T>, concerns: (record: JournalRecord) => boolean): Live<T> {
  const [shown, setShown] = useState<Shown<T>>();
  const reading = useRef({ key, load, busy: false, again: false });
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  reading.current.key = key;
  reading.current.load = load;

  const read = async () => {
    const now = reading.current;
    now.again = now.busy;
    if (now.busy) return;
    now.busy = true;
    const asked = now.key;
    try {
      const data = await now.load();
      setShown({ key: asked, data, error: undefined });
    } catch (error) {
      setShown((old) => ({ key: asked, data: old?.key === asked ? old.data : undefined, error }));
    }
    now.busy = false;
    if (now.again || asked !== now.key) void read();
  };
  const soon = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(read, SETTLE_MS);
  };

  useEffect(() => {
    void read();
    return () => clearTimeout(timer.current);
  }, [key]);
  useStream({ onRecord: (record) => void (concerns(record) && soon()), onOpen: soon });

  const current = shown?.key === key ? shown : undefined;
  return { data: current?.data, error: current?.error, loading: current === undefined, reload: read };
}
