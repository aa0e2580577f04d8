/** One stream for all tabs. A browser opens six connections to a server, so a stream for each tab would leave none.
 *
 * One tab holds a lock and leads: it has the stream, and tells the others what comes. When it goes, the browser gives the
 * lock to another tab, whose stream begins after the last record that it saw. Where a browser has no locks (over plain
 * HTTP from another machine) each tab has a stream of its own while it is in sight. */
import { type Frame, type JournalRecord, journalGet } from "../sdk";
import { openSource, type StreamEvent } from "./source";

/** What a tab that joins asks, and what the leader answers: where the stream is, and the frames of what runs. */
interface Hello {
  type: "hello";
  from: string;
}

interface Welcome {
  type: "welcome";
  to: string;
  standing: "opened" | "cut" | null;
  last: number | null;
  frames: Frame[];
}

const PAGE = 1000;

/** Follows the stream with all tabs of `group` until the function that it returns is called. `start` is the position of
 * the last record that this tab saw. Each record is told once, in order. */
export function followStream(group: string, start: number | null, tell: (event: StreamEvent) => void): () => void {
  const leaving = new AbortController();
  const { signal } = leaving;
  let last = start;
  const tellNew = (event: StreamEvent) => {
    if (signal.aborted) return;
    if (event.type === "record") {
      if (last !== null && event.record.position <= last) return;
      last = event.record.position;
    }
    tell(event);
  };
  if (navigator.locks === undefined || typeof BroadcastChannel === "undefined") {
    whileInSight(signal, () => openSource(() => last, tellNew));
    return () => leaving.abort();
  }

  const name = `demiurge ${group}`;
  const self = crypto.randomUUID();
  const channel = new BroadcastChannel(name);
  const running = new RunningFrames();
  let standing: Welcome["standing"] = null;
  let leads = false;
  let inOrder: Promise<unknown> = Promise.resolve();

  const join = async (welcome: Welcome) => {
    if (last !== null && welcome.last !== null) {
      const found = await missed(last, welcome.last, signal).catch(() => []); // the pages read their data again anyway
      for (const record of found) tellNew({ type: "record", record });
    }
    last ??= welcome.last;
    if (welcome.standing !== null) tellNew({ type: welcome.standing });
    for (const frame of welcome.frames) tellNew({ type: "frame", frame });
  };
  channel.onmessage = ({ data }: MessageEvent<StreamEvent | Hello | Welcome>) => {
    if (data.type === "hello") {
      if (leads) channel.postMessage({ type: "welcome", to: data.from, standing, last, frames: running.all() } satisfies Welcome);
    } else if (data.type !== "welcome") inOrder = inOrder.then(() => tellNew(data));
    else if (data.to === self) inOrder = inOrder.then(() => join(data));
  };
  channel.postMessage({ type: "hello", from: self } satisfies Hello);

  const lead = () =>
    new Promise<void>((release) => {
      leads = true;
      const close = openSource(
        () => last,
        (event) => {
          if (event.type === "opened" || event.type === "cut") standing = event.type;
          if (event.type === "opened") running.clear();
          if (event.type === "frame") running.add(event.frame);
          tellNew(event);
          channel.postMessage(event);
        },
      );
      signal.addEventListener("abort", () => {
        close();
        channel.close();
        release();
      });
    });
  navigator.locks.request(name, { signal }, lead).catch(() => channel.close()); // this tab left before it was its turn
  return () => leaving.abort();
}

/** Returns the records after `last` up to `to`. */
async function missed(last: number, to: number, signal: AbortSignal): Promise<JournalRecord[]> {
  const found: JournalRecord[] = [];
  for (let next: number | null = last + 1; next !== null && next <= to && !signal.aborted; ) {
    const page: Awaited<ReturnType<typeof journalGet>> = await journalGet({ from: next, limit: PAGE });
    found.push(...page.records);
    next = page.next;
  }
  return found;
}

/** Types of frames of which only the newest tells something. */
const NEWEST_ALONE = ["tool_progress", "status"];

/** The frames of what runs, as the beginning of a stream has them: text in one piece, of progress the newest. */
class RunningFrames {
  private byIntent = new Map<string, Frame[]>();

  add(frame: Frame): void {
    if (frame.type === "closed") this.byIntent.delete(frame.intent);
    if (frame.type === "began") this.byIntent.set(frame.intent, []);
    const frames = this.byIntent.get(frame.intent);
    const before = frames?.at(-1);
    if (frames === undefined) return;
    if (before?.type === "text_delta" && frame.type === "text_delta") frames.push({ ...frames.pop()!, delta: `${before.delta}${frame.delta}` });
    else if (before?.type === frame.type && NEWEST_ALONE.includes(frame.type)) frames.splice(-1, 1, frame);
    else frames.push(frame);
  }

  all(): Frame[] {
    return [...this.byIntent.values()].flat();
  }

  clear(): void {
    this.byIntent.clear();
  }
}

/** Has something open while the page is in sight. */
function whileInSight(signal: AbortSignal, open: () => () => void): void {
  let close: (() => void) | undefined;
  const turn = () => {
    if (document.hidden === (close === undefined)) return;
    close = document.hidden ? void close?.() : open();
  };
  document.addEventListener("visibilitychange", turn, { signal });
  signal.addEventListener("abort", () => close?.());
  turn();
}
