/** A causal tree as a waterfall: a row for each step, and where its time went. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState } from "react";
import { Arguments } from "../parts/arguments";
import { durationText } from "../parts/time";
import { Verbatim } from "../parts/verbatim";
import { Link } from "../router";
import type { TraceNode, TracePhase, TraceTree } from "../sdk";
import { longIdle, type TimeScale, timeScale } from "./time-scale";

const ROW_PX = 26;
/** Trees with more rows are windowed. */
const WINDOW_FROM = 300;

const STATES: Record<string, string> = {
  awaiting_approval: "waits for a person",
  waiting: "waits for a person",
  running: "running",
};
const PHASES: Record<TracePhase["phase"], string> = { person: "waited for a person", queued: "queued", running: "ran" };

/** Returns the rows to show: a receipt and an approval belong to the row of their intent, unless all records are shown. */
function rowsOf(nodes: TraceNode[], everything: boolean): TraceNode[] {
  if (everything) return nodes;
  const bad = new Set(["failed", "denied", "rejected"]);
  return nodes.filter(
    (node, place) =>
      place === 0 || node.kind === "intent" || (bad.has(node.state ?? "") && node.kind !== "approval") || node.kind === "event",
  );
}

export function Waterfall({ tree, nowNs }: { tree: TraceTree; nowNs: number }) {
  const idle = useMemo(() => longIdle(tree.nodes, nowNs), [tree]);
  const [fold, setFold] = useState(idle);
  const [everything, setEverything] = useState(false);
  const [open, setOpen] = useState<string>();
  const rows = useMemo(() => rowsOf(tree.nodes, everything), [tree, everything]);
  const scale = useMemo(() => timeScale(tree.nodes, nowNs, fold), [tree, fold, nowNs]);
  const depths = useMemo(() => Math.min(...rows.slice(1).map((row) => row.depth).slice(0, 10_000), 1), [rows]);
  const box = useRef<HTMLDivElement>(null);
  const windowed = rows.length >= WINDOW_FROM;
  const shown = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    enabled: windowed,
  });
  const row = (node: TraceNode, place: number) => (
    <WaterfallRow
      key={`${node.unit} ${node.seq}`}
      node={node}
      place={place}
      root={tree.nodes[0]!}
      indent={Math.max(0, node.depth - depths)}
      scale={scale}
      nowNs={nowNs}
      isOpen={open === `${node.unit} ${node.seq}`}
      onOpen={() => setOpen((old) => (old === `${node.unit} ${node.seq}` ? undefined : `${node.unit} ${node.seq}`))}
    />
  );
  const chosen = open === undefined ? undefined : tree.nodes.find((node) => `${node.unit} ${node.seq}` === open);
  return (
    <section className="card waterfall" aria-label={`Trace of ${tree.unit} #${tree.seq}`}>
      <header className="buttons">
        <h2>
          <bdi className="wrap">{tree.nodes[0]?.says}</bdi> #{tree.seq}
        </h2>
        <span className={`state ${tree.state === "waiting" ? "running" : tree.state}`}>{STATES[tree.state] ?? tree.state}</span>
        <span className="faint">{summary(tree.nodes, nowNs)}</span>
      </header>
      {tree.why !== null && <p className="problem">{tree.why}</p>}
      <p className="buttons">
        <label>
          <input type="checkbox" checked={fold} onChange={(event) => setFold(event.target.checked)} /> Hide idle time
        </label>
        <label>
          <input type="checkbox" checked={everything} onChange={(event) => setEverything(event.target.checked)} /> All records
        </label>
        <span className="legend">
          <i className="phase person" /> a person <i className="phase queued" /> queued <i className="phase running" /> running
        </span>
      </p>
      {scale.gaps.length > 0 && (
        <p className="faint">Folded: {scale.gaps.map((gap) => durationText(gap.ms)).join(", ")} in which nothing ran.</p>
      )}
      <div
        ref={box}
        role="treegrid"
        aria-label="Steps"
        aria-rowcount={rows.length}
        tabIndex={0}
        className={windowed ? "spans windowed" : "spans"}
      >
        {windowed ? (
          <div role="presentation" style={{ blockSize: shown.getTotalSize(), position: "relative" }}>
            {shown.getVirtualItems().map((item) => (
              <div
                key={item.key}
                role="presentation"
                style={{ position: "absolute", insetInlineStart: 0, insetInlineEnd: 0, transform: `translateY(${item.start}px)` }}
              >
                {row(rows[item.index]!, item.index)}
              </div>
            ))}
          </div>
        ) : (
          rows.map(row)
        )}
      </div>
      {chosen !== undefined && <NodeDetails node={chosen} nowNs={nowNs} />}
    </section>
  );
}

interface WaterfallRowProps {
  node: TraceNode;
  place: number;
  root: TraceNode;
  indent: number;
  scale: TimeScale;
  nowNs: number;
  isOpen: boolean;
  onOpen: () => void;
}

function WaterfallRow({ node, place, root, indent, scale, nowNs, isOpen, onOpen }: WaterfallRowProps) {
  const name = node.says === "" ? node.kind : node.says.replace(/ \(by .*\)$/, "");
  const state = node.state ?? "";
  return (
    <div role="row" aria-level={indent + 1} aria-rowindex={place + 1} aria-selected={isOpen} className={`span ${isOpen ? "selected" : ""}`}>
      <div role="gridcell" className="name">
        <button type="button" style={{ paddingInlineStart: `${Math.min(indent, 12) * 0.7 + 0.3}rem` }} onClick={onOpen} aria-expanded={isOpen}>
          <bdi>{name}</bdi>
          {state !== "" && <span className={`state ${state}`}> {STATES[state] ?? state}</span>}
        </button>
      </div>
      <div role="gridcell" className="bar-cell" title={phasesText(node, nowNs) || `+${durationText((node.time_ns - root.time_ns) / 1e6)}`}>
        {(node.phases ?? []).map((each) => {
          const from = scale.at(each.from_ns);
          const to = scale.at(each.to_ns ?? nowNs);
          return (
            <i
              key={each.phase}
              data-phase={each.phase}
              className={`phase ${each.phase} ${each.to_ns === null ? "open-end" : ""}`}
              style={{ insetInlineStart: `${from * 100}%`, inlineSize: `max(2px, ${(to - from) * 100}%)` }}
            />
          );
        })}
        {node.phases === undefined && <i className="phase point" style={{ insetInlineStart: `min(calc(100% - 4px), ${scale.at(node.time_ns) * 100}%)` }} />}
        <span className="unseen">{phasesText(node, nowNs)}</span>
      </div>
    </div>
  );
}

function NodeDetails({ node, nowNs }: { node: TraceNode; nowNs: number }) {
  return (
    <div className="card">
      <p>
        <Verbatim text={`${node.kind} ${node.says}`} />
      </p>
      {phasesText(node, nowNs) !== "" && <p>{phasesText(node, nowNs)}</p>}
      {node.why !== null && <p className="problem">{node.why}</p>}
      {typeof node.arguments_json === "string" && <Arguments json={node.arguments_json} />}
      {node.arguments_json === null && <p className="faint">Arguments: {node.arguments_problem}.</p>}
      <p>
        <Link href={`/journal?unit=${encodeURIComponent(node.unit)}&seq=${node.seq}`}>Open the record</Link>
      </p>
    </div>
  );
}

function phasesText(node: TraceNode, nowNs: number): string {
  return (node.phases ?? [])
    .map((each) => `${PHASES[each.phase]} ${durationText(((each.to_ns ?? nowNs) - each.from_ns) / 1e6)}${each.to_ns === null ? " so far" : ""}`)
    .join(", ");
}

function summary(nodes: TraceNode[], nowNs: number): string {
  const sums = { person: 0, queued: 0, running: 0 };
  for (const node of nodes) for (const each of node.phases ?? []) sums[each.phase] += (each.to_ns ?? nowNs) - each.from_ns;
  const waited = sums.person > 0 ? `, waited ${durationText(sums.person / 1e6)}` : "";
  return `ran ${durationText(sums.running / 1e6)}${waited}`;
}
