/** One row of a waterfall, and the axis above the rows. */
import { stateText } from "../parts/call-state";
import { TaintTag } from "../parts/taint";
import { durationText } from "../parts/time";
import { Verbatim } from "../parts/verbatim";
import type { TraceNode, TracePhase } from "../sdk";
import type { TimeScale } from "./time-scale";
import type { Row } from "./trace-rows";

const PHASES: Record<TracePhase["phase"], string> = { person: "waited for a person", queued: "queued", running: "ran" };
/** A group shows the bars of so many of its members. */
const MOST_BARS = 20;

interface WaterfallRowProps {
  row: Row;
  place: number;
  rootNs: number;
  scale: TimeScale;
  nowNs: number;
  isChosen: boolean;
  isFocusable: boolean;
  isDim: boolean;
  onFold: () => void;
  onChoose: () => void;
}

export function WaterfallRow({ row, place, rootNs, scale, nowNs, isChosen, isFocusable, isDim, onFold, onChoose }: WaterfallRowProps) {
  const { node, name, state, by } = row.step;
  const nodes = row.members.map((each) => each.node);
  const phases = nodes.slice(0, MOST_BARS).flatMap((each) => each.phases ?? []);
  const text = phasesText(nodes, nowNs);
  const end = Math.max(scale.at(node.time_ns), ...phases.map((each) => scale.at(each.to_ns ?? nowNs)));
  const busy = durationOf(nodes, nowNs);
  return (
    <div
      role="row"
      aria-level={row.level + 1}
      aria-rowindex={place + 1}
      aria-selected={isChosen}
      aria-expanded={row.canFold ? !row.isFolded : undefined}
      tabIndex={isFocusable ? 0 : -1}
      data-row={place}
      className={`span ${isChosen ? "selected" : ""} ${isDim ? "dim" : ""}`}
      onClick={onChoose}
    >
      <div role="gridcell" className="name" style={{ paddingInlineStart: `${Math.min(row.level, 12) * 0.7 + 0.3}rem` }}>
        <span
          className={`chevron ${row.canFold ? "" : "none"} ${row.isFolded ? "folded" : ""}`}
          aria-hidden="true"
          onClick={(event) => {
            if (!row.canFold) return;
            event.stopPropagation();
            onFold();
          }}
        />
        <bdi>
          <Verbatim text={name} />
        </bdi>
        {row.members.length > 1 && <span className="times"> ×{row.members.length}</span>}
        {row.isFolded && row.members.length === 1 && <span className="faint"> +{countBelow(row)}</span>}
        {row.members.length === 1 && <TaintTag tools={node.tainted} />}
        {state !== "" && row.members.length === 1 && <span className={`state ${state}`}> {stateText(state, by)}</span>}
      </div>
      <div role="gridcell" className="bar-cell" title={text || `+${durationText((node.time_ns - rootNs) / 1e6)}`}>
        {phases.map((each, at) => {
          const from = scale.at(each.from_ns);
          const to = scale.at(each.to_ns ?? nowNs);
          return (
            <i
              key={at}
              data-phase={each.phase}
              className={`phase ${each.phase} ${each.to_ns === null ? "open-end" : ""}`}
              style={{ insetInlineStart: `min(calc(100% - 2px), ${from * 100}%)`, inlineSize: `max(2px, ${(to - from) * 100}%)` }}
            />
          );
        })}
        {phases.length === 0 && <i className="phase point" style={{ insetInlineStart: `min(calc(100% - 4px), ${scale.at(node.time_ns) * 100}%)` }} />}
        {busy > 0 && (
          <span className="took" style={end < 0.8 ? { insetInlineStart: `calc(${end * 100}% + 4px)` } : { insetInlineEnd: "4px" }}>
            {durationText(busy / 1e6)}
          </span>
        )}
        <span className="unseen">{text}</span>
      </div>
    </div>
  );
}

function countBelow(row: Row): number {
  let count = 0;
  const waiting = [...row.step.children];
  while (waiting.length > 0) {
    count++;
    waiting.push(...waiting.pop()!.children);
  }
  return count;
}

function durationOf(nodes: TraceNode[], nowNs: number): number {
  return nodes.flatMap((node) => node.phases ?? []).reduce((sum, each) => sum + ((each.to_ns ?? nowNs) - each.from_ns), 0);
}

/** What the phases of one call or of a group of calls were, in words. */
export function phasesText(nodes: TraceNode[], nowNs: number): string {
  const sums = new Map<TracePhase["phase"], { ns: number; open: boolean }>();
  for (const each of nodes.flatMap((node) => node.phases ?? [])) {
    const old = sums.get(each.phase) ?? { ns: 0, open: false };
    sums.set(each.phase, { ns: old.ns + (each.to_ns ?? nowNs) - each.from_ns, open: old.open || each.to_ns === null });
  }
  return [...sums].map(([phase, { ns, open }]) => `${PHASES[phase]} ${durationText(ns / 1e6)}${open ? " so far" : ""}`).join(", ");
}

export function summary(nodes: TraceNode[], nowNs: number): string {
  const sums = { person: 0, queued: 0, running: 0 };
  for (const node of nodes) for (const each of node.phases ?? []) sums[each.phase] += (each.to_ns ?? nowNs) - each.from_ns;
  const waited = sums.person > 0 ? `, waited ${durationText(sums.person / 1e6)}` : "";
  return `ran ${durationText(sums.running / 1e6)}${waited}`;
}

/** The time from the first record to the last, with a tick at each edge of idle time that is hidden. */
export function TimeAxis({ scale }: { scale: TimeScale }) {
  return (
    <div className="axis">
      <span className="axis-time">{durationText(scale.wholeMs)}</span>
      <div className="bar-cell">
        {scale.gaps.map((gap) => (
          <span
            key={gap.from}
            className="gap"
            title={`${durationText(gap.ms)} in which nothing ran`}
            style={{ insetInlineStart: `${gap.from * 100}%`, inlineSize: `${(gap.to - gap.from) * 100}%` }}
          >
            {durationText(gap.ms)}
            <span className="unseen"> in which nothing ran are hidden</span>
          </span>
        ))}
      </div>
    </div>
  );
}
