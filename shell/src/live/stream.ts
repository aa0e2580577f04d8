/** What happens in the world, for the components that show it: records by position, and text while a model writes it.
 * What the pages show is always read from the server: a record only says that it is time to read. */
import { useEffect, useRef, useSyncExternalStore } from "react";
import type { Frame, JournalRecord, Session } from "../sdk";
import type { StreamEvent } from "./source";
import { followStream } from "./tabs";

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

const listeners = new Set<Listener>();
const watchers = new Set<() => void>();
/** By unit and call, from the beginning of the stream on: the frames of a call that runs come once, and the page that
 * shows the call may be loaded later. */
const progress = new Map<string, Progress>();
/** By unit: what a model that has not begun to answer does, in words, such as how much of the prompt it has read. */
const readings = new Map<string, string>();
let status: StreamStatus = "connecting";
/** The position of the last record that came. */
let last: number | null = null;
let leave: (() => void) | null = null;

function setStatus(now: StreamStatus): void {
  if (now === status) return;
  status = now;
  for (const tell of watchers) tell();
}

/** Follows the stream, if it is not followed. All tabs of one caller have one connection for it. */
export function startStream({ tenant, actor, roles }: Session): void {
  leave ??= followStream(JSON.stringify([tenant, actor, roles]), last, onEvent);
}

function onEvent(event: StreamEvent): void {
  if (event.type === "cut") setStatus("offline");
  else if (event.type === "opened") {
    setStatus("live");
    progress.clear();
    readings.clear();
    for (const tell of watchers) tell();
    for (const each of listeners) each.onOpen?.();
  } else if (event.type === "record") {
    last = event.record.position;
    for (const each of listeners) each.onRecord?.(event.record);
  } else {
    noteProgress(event.frame);
    noteReading(event.frame);
    for (const each of listeners) each.onFrame?.(event.frame);
  }
}

function noteProgress({ type, unit, tool_call_id, done = 0, total = null, message = "" }: Frame): void {
  if (tool_call_id === undefined) return;
  const key = `${unit} ${tool_call_id}`;
  if (type === "tool_progress") progress.set(key, { done, total, message });
  else if (!progress.delete(key)) return; // the call begins or ends; its id may come again
  for (const tell of watchers) tell();
}

function noteReading({ type, unit, phase, label }: Frame): void {
  if (type === "status" && phase === "thinking" && label != null) readings.set(unit, label);
  else if (!readings.delete(unit)) return;
  for (const tell of watchers) tell();
}

/** Returns what the model of a unit does before it answers, in words; undefined if it has said nothing of it. */
export function useReading(unit: string): string | undefined {
  return useSyncExternalStore(watch, () => readings.get(unit));
}

/** Returns how far a running call is; undefined if its tool reported nothing. */
export function useCallProgress(unit: string, callId: string): Progress | undefined {
  return useSyncExternalStore(watch, () => progress.get(`${unit} ${callId}`));
}

/** Leaves the stream. A page that the browser keeps for "back" must not hold a connection. */
export function stopStream(): void {
  leave?.();
  leave = null;
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
