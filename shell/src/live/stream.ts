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

/** How far a running call is, as its tool reported it last. */
export interface Progress {
  done: number;
  total: number | null;
  message: string;
}

const RETRY_MS = 1000;
const listeners = new Set<Listener>();
const watchers = new Set<() => void>();
/** By unit and call, from the beginning of the stream on: the frames of a call that runs come once, and the page that
 * shows the call may be loaded later. */
const progress = new Map<string, Progress>();
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
    progress.clear();
    for (const tell of watchers) tell();
    for (const each of listeners) each.onOpen?.();
  };
  opened.addEventListener("record", (event) => {
    last = event.lastEventId;
    const record: JournalRecord = JSON.parse(event.data);
    for (const each of listeners) each.onRecord?.(record);
  });
  opened.addEventListener("frame", (event) => {
    const frame: Frame = JSON.parse(event.data);
    noteProgress(frame);
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

function noteProgress({ type, unit, tool_call_id, done = 0, total = null, message = "" }: Frame): void {
  if (tool_call_id === undefined) return;
  const key = `${unit} ${tool_call_id}`;
  if (type === "tool_progress") progress.set(key, { done, total, message });
  else if (!progress.delete(key)) return; // the call begins or ends; its id may come again
  for (const tell of watchers) tell();
}

/** Returns how far a running call is; undefined if its tool reported nothing. */
export function useCallProgress(unit: string, callId: string): Progress | undefined {
  return useSyncExternalStore(watch, () => progress.get(`${unit} ${callId}`));
}

export function stopStream(): void {
  clearTimeout(retry);
  source?.close();
  source = null;
}

export function useStreamStatus(): StreamStatus {
  return useSyncExternalStore(watch, () => status);
}

function watch(tell: () => void): () => void {
  watchers.add(tell);
  return () => watchers.delete(tell);
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
