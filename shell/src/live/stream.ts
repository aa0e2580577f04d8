/** The one connection on which the server tells what happens: records by position, and text while a model writes it.
 *
 * The browser comes back by itself with the id it saw last; where it gives up, this module opens the stream again from
 * the next position. What the pages show is always read from the server: a record only says that it is time to read. */
import { useEffect, useRef, useSyncExternalStore } from "react";
import type { Frame, JournalRecord } from "../sdk";

export type StreamStatus = "connecting" | "live" | "offline";

export interface Listener {
  onRecord?: (record: JournalRecord) => void;
  onFrame?: (frame: Frame) => void;
  /** The stream begins, perhaps after a break: read everything again. The frames of what runs come once more. */
  onOpen?: () => void;
}

const RETRY_MS = 1000;
const listeners = new Set<Listener>();
const watchers = new Set<() => void>();
let source: EventSource | null = null;
let status: StreamStatus = "connecting";
let last: string | null = null;
let retry: ReturnType<typeof setTimeout> | undefined;

function setStatus(now: StreamStatus): void {
  if (now === status) return;
  status = now;
  for (const tell of watchers) tell();
}

/** Opens the stream, if it is not open. */
export function startStream(): void {
  if (source !== null) return;
  const from = last === null ? "" : `&from=${Number(last) + 1}`;
  const opened = new EventSource(`/api/journal/stream?frames=true${from}`);
  source = opened;
  opened.onopen = () => {
    setStatus("live");
    for (const each of listeners) each.onOpen?.();
  };
  opened.addEventListener("record", (event) => {
    last = event.lastEventId;
    const record: JournalRecord = JSON.parse(event.data);
    for (const each of listeners) each.onRecord?.(record);
  });
  opened.addEventListener("frame", (event) => {
    const frame: Frame = JSON.parse(event.data);
    for (const each of listeners) each.onFrame?.(frame);
  });
  opened.onerror = () => {
    setStatus("offline");
    if (opened.readyState === EventSource.CLOSED) {
      stopStream();
      retry = setTimeout(startStream, RETRY_MS);
    }
  };
}

export function stopStream(): void {
  clearTimeout(retry);
  source?.close();
  source = null;
}

export function useStreamStatus(): StreamStatus {
  return useSyncExternalStore(
    (tell) => {
      watchers.add(tell);
      return () => watchers.delete(tell);
    },
    () => status,
  );
}

/** Calls the functions of `given` while the component is shown. They may be new at each render. */
export function useStream(given: Listener): void {
  const current = useRef(given);
  current.current = given;
  useEffect(() => {
    const listener: Listener = {
      onRecord: (record) => current.current.onRecord?.(record),
      onFrame: (frame) => current.current.onFrame?.(frame),
      onOpen: () => current.current.onOpen?.(),
    };
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
}
