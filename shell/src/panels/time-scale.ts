/** Places of times on an axis, with idle time folded where it would hide what ran. */
import type { TraceNode } from "../sdk";

export interface TimeScale {
  /** The place of a time, from 0 to 1. */
  at: (ns: number) => number;
  /** The places at which idle time is folded, and how long it was. */
  gaps: { from: number; to: number; ms: number }[];
  /** From the first time to the last. */
  wholeMs: number;
}

const GAP_SHARE = 0.06;
/** Idle time is folded by itself when it is this many times longer than everything that ran. */
const FOLD_FROM = 5;

interface Span {
  from: number;
  to: number;
}

/** Returns the spans in which something ran or was queued, in order and without overlaps. */
function busySpans(nodes: TraceNode[], now: number): Span[] {
  const spans = nodes.flatMap((node) =>
    (node.phases ?? [])
      .filter((each) => each.phase !== "person")
      .map((each) => ({ from: each.from_ns, to: each.to_ns ?? now }))
      .concat({ from: node.time_ns, to: node.time_ns }),
  );
  spans.push(...nodes.map((node) => ({ from: node.time_ns, to: node.time_ns })));
  spans.sort((one, other) => one.from - other.from);
  const merged: Span[] = [];
  for (const span of spans) {
    const last = merged.at(-1);
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else merged.push({ ...span });
  }
  return merged;
}

export function longIdle(nodes: TraceNode[], now: number): boolean {
  const spans = busySpans(nodes, now);
  const busy = spans.reduce((sum, each) => sum + each.to - each.from, 0);
  const whole = (spans.at(-1)?.to ?? 0) - (spans[0]?.from ?? 0);
  return whole - busy > FOLD_FROM * Math.max(busy, 1e6);
}

export function timeScale(nodes: TraceNode[], now: number, fold: boolean): TimeScale {
  const spans = busySpans(nodes, now);
  const start = spans[0]?.from ?? 0;
  const ends = nodes.flatMap((node) => (node.phases ?? []).map((each) => each.to_ns ?? now));
  const end = ends.reduce((last, each) => Math.max(last, each), Math.max(start + 1, spans.at(-1)?.to ?? 0));
  const wholeMs = (end - start) / 1e6;
  if (!fold) return { at: (ns) => Math.min(1, Math.max(0, (ns - start) / (end - start))), gaps: [], wholeMs };
  const busy = Math.max(1, spans.reduce((sum, each) => sum + each.to - each.from, 0));
  const edges = spans.map((each, place) => ({ ...each, next: spans[place + 1]?.from ?? end }));
  const folded = edges.map((each) => each.next - each.to > busy * GAP_SHARE);
  const idle = edges.reduce((sum, each, place) => sum + (folded[place] ? 0 : each.next - each.to), 0);
  const share = Math.min(GAP_SHARE, 0.5 / Math.max(1, folded.filter(Boolean).length));
  const left = 1 - share * folded.filter(Boolean).length;
  const unit = left / (busy + idle);
  const knots: [number, number][] = [];
  const gaps: TimeScale["gaps"] = [];
  let place = 0;
  edges.forEach((each, index) => {
    knots.push([each.from, place]);
    place += (each.to - each.from) * unit;
    knots.push([each.to, place]);
    const width = folded[index] ? share : (each.next - each.to) * unit;
    if (folded[index]) gaps.push({ from: place, to: place + width, ms: (each.next - each.to) / 1e6 });
    place += width;
  });
  knots.push([end, 1]);
  const at = (ns: number) => {
    let low = 0;
    let high = knots.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (knots[middle]![0] <= ns) low = middle;
      else high = middle - 1;
    }
    const [from, place] = knots[low]!;
    const [to, next] = knots[Math.min(low + 1, knots.length - 1)]!;
    const within = to > from ? Math.min(1, Math.max(0, (ns - from) / (to - from))) : 0;
    return Math.min(1, Math.max(0, place + within * (next - place)));
  };
  return { at, gaps, wholeMs };
}
