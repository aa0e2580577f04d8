/** Data of the server that a component shows, read again whenever a record says that they changed. */
import { useEffect, useRef, useState } from "react";
import { ApiError, type JournalRecord } from "../sdk";
import { useStream } from "./stream";

export interface Live<T> {
  /** What was read last; it stays when a later read fails. */
  data: T | undefined;
  error: unknown;
  loading: boolean;
  /** When `data` were read, by this machine's clock. */
  readAt: number | undefined;
  reload: () => void;
}

interface Shown<T> {
  key: string;
  data: T | undefined;
  readAt: number | undefined;
  error: unknown;
}

const SETTLE_MS = 60;

/** The longest time that a read may take. A connection that says nothing more would else keep the page from reading again. */
const PATIENCE_MS = 60_000;

async function inTime<T>(reading: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new ApiError(0, "no_answer", "The server has not answered for a minute. Try again.");
    timer = setTimeout(() => reject(error), PATIENCE_MS);
  });
  return Promise.race([reading, late]).finally(() => clearTimeout(timer));
}

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
      const data = await inTime(now.load());
      setShown({ key: asked, data, readAt: Date.now(), error: undefined });
    } catch (error) {
      setShown((old) => {
        const kept = old?.key === asked ? old : undefined;
        return { key: asked, data: kept?.data, readAt: kept?.readAt, error };
      });
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
  const { data, readAt, error } = current ?? {};
  return { data, readAt, error, loading: current === undefined, reload: read };
}
