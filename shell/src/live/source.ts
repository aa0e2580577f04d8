/** The stream of the server: what happens, as events; opened again after each break. */
import { apiPath } from "../sdk/client";
import type { Frame, JournalRecord } from "../sdk";

export type StreamEvent =
  | { type: "opened" }
  | { type: "cut" }
  | { type: "record"; record: JournalRecord }
  | { type: "frame"; frame: Frame };

const RETRY_MS = 1000;

/** Opens the stream after the position that `last` returns; without one, from now on. Returns a function that closes it.
 *
 * The browser comes back by itself with the id it saw last; where it gives up, the stream is opened anew. */
export function openSource(last: () => number | null, tell: (event: StreamEvent) => void): () => void {
  let source: EventSource;
  let retry: ReturnType<typeof setTimeout> | undefined;

  const open = () => {
    const position = last();
    source = new EventSource(apiPath("/api/journal/stream", { frames: true, from: position === null ? null : position + 1 }));
    source.onopen = () => tell({ type: "opened" });
    source.addEventListener("record", ({ data }) => tell({ type: "record", record: JSON.parse(data) }));
    source.addEventListener("frame", ({ data }) => tell({ type: "frame", frame: JSON.parse(data) }));
    source.onerror = () => {
      tell({ type: "cut" });
      if (source.readyState === EventSource.CLOSED) retry = setTimeout(open, RETRY_MS);
    };
  };
  open();
  return () => {
    clearTimeout(retry);
    source.close();
  };
}
