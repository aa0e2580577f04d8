/** A causal tree as a waterfall: a row for each step, and where its time went. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { Arguments } from "../parts/arguments";
import { placeForKey } from "../parts/list-keys";
import { useNarrow } from "../parts/narrow";
import { ToldResult } from "../parts/told-result";
import { Verbatim } from "../parts/verbatim";
import { Link } from "../router";
import { blobPath, type TraceNode, type TraceTree } from "../sdk";
import { BlobHead } from "./json-view";
import { longIdle, timeScale } from "./time-scale";
import { stateText } from "../parts/call-state";
import { criticalPath, foldedAtFirst, idOf, isBad, pathTo, rowsOf, type Step, stepsOf } from "./trace-rows";
import { phasesText, summary, TimeAxis, WaterfallRow } from "./waterfall-row";

const ROW_PX = 26;
/** On a narrow screen the name is above the bar. */
const NARROW_ROW_PX = 52;
/** Trees with more rows are windowed. */
const WINDOW_FROM = 300;

interface WaterfallProps {
  tree: TraceTree;
  nowNs: number;
  /** The step that is open, which the address names. */
  chosen: string | null;
  onChoose: (id: string | null) => void;
}

export function Waterfall({ tree, nowNs, chosen, onChoose }: WaterfallProps) {
  const [hidesIdle, setHidesIdle] = useState(() => longIdle(tree.nodes, nowNs));
  const [everything, setEverything] = useState(false);
  const [critical, setCritical] = useState(false);
  const steps = useMemo(() => stepsOf(tree.nodes, everything), [tree, everything]);
  const [folded, setFolded] = useState(() => foldedAtFirst(steps));
  const [openGroups, setOpenGroups] = useState(new Set<string>());
  const [text, setText] = useState("");
  const rows = useMemo(() => rowsOf(steps[0]!, folded, openGroups), [steps, folded, openGroups]);
  const scale = useMemo(() => timeScale(tree.nodes, nowNs, hidesIdle), [tree, hidesIdle, nowNs]);
  const onPath = useMemo(() => (critical ? criticalPath(tree.nodes, nowNs) : null), [tree, critical, nowNs]);
  const found = useMemo(() => matching(steps, text), [steps, text]);
  const failed = useMemo(() => steps.filter((step) => isBad(step)), [steps]);
  const [focused, setFocused] = useState(rows[0]!.id);
  const box = useRef<HTMLDivElement>(null);
  const px = useNarrow() ? NARROW_ROW_PX : ROW_PX;
  const windowed = rows.length >= WINDOW_FROM;
  const shown = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => px, overscan: 8, enabled: windowed });
  useEffect(() => {
    shown.measure();
  }, [px]);

  const place = Math.max(0, rows.findIndex((row) => row.id === focused));
  const awaited = useRef<string>(null);
  const moveTo = (id: string) => {
    awaited.current = id;
    setFocused(id);
  };
  /** Unfolds what hides a step, moves the focus to it, and opens it. */
  const reveal = (step: Step) => {
    const { unfold, open } = pathTo(step);
    setFolded((old) => new Set([...old].filter((id) => !unfold.includes(id))));
    setOpenGroups((old) => new Set([...old, ...open]));
    moveTo(step.id);
    onChoose(step.id);
  };
  useEffect(() => {
    const step = chosen === null ? undefined : steps.find((each) => each.id === chosen);
    if (step !== undefined && chosen !== focused) reveal(step);
    else if (step === undefined && tree.nodes.some((node) => idOf(node) === chosen)) setEverything(true);
  }, [chosen, everything]);
  useEffect(() => {
    if (awaited.current === null) return;
    const at = rows.findIndex((row) => row.id === awaited.current);
    if (at < 0) return;
    const row = box.current?.querySelector<HTMLElement>(`[data-row="${at}"]`);
    if (row == null) return shown.scrollToIndex(at, { align: "auto" });
    row.focus({ preventScroll: windowed });
    if (windowed) shown.scrollToIndex(at, { align: "auto" });
    awaited.current = null;
  });

  const fold = (id: string, isFolded: boolean) => {
    const isGroup = id.startsWith("group ");
    const change = (old: Set<string>, add: boolean) => new Set(add ? [...old, id] : [...old].filter((each) => each !== id));
    if (isGroup) setOpenGroups((old) => change(old, !isFolded));
    else setFolded((old) => change(old, isFolded));
  };
  const next = (among: Step[], back = false) => {
    if (among.length === 0) return;
    const order = new Map(steps.map((step, at) => [step.id, at]));
    const now = order.get(chosen ?? "") ?? (back ? steps.length : -1);
    const ahead = back ? among.findLast((step) => order.get(step.id)! < now) : among.find((step) => order.get(step.id)! > now);
    reveal(ahead ?? (back ? among.at(-1)! : among[0]!));
  };
  const onKeys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = rows[place]!;
    const isRtl = getComputedStyle(event.currentTarget).direction === "rtl";
    const [outward, inward] = isRtl ? ["ArrowRight", "ArrowLeft"] : ["ArrowLeft", "ArrowRight"];
    const to = placeForKey(event.key, place, rows.length);
    if (to !== null) moveTo(rows[to]!.id);
    else if (event.key === "Enter" || event.key === " ") choose(row);
    else if (event.key === inward && row.canFold && row.isFolded) fold(row.id, false);
    else if (event.key === outward && row.canFold && !row.isFolded) fold(row.id, true);
    else if (event.key === outward && row.step.parent !== null) moveTo(row.step.parent.id);
    else return;
    event.preventDefault();
  };
  const choose = (row: (typeof rows)[number]) => {
    setFocused(row.id);
    if (row.members.length > 1) fold(row.id, !row.isFolded);
    else onChoose(row.id === chosen ? null : row.id);
  };
  const row = (at: number) => {
    const each = rows[at]!;
    return (
      <WaterfallRow
        key={each.id}
        row={each}
        place={at}
        rootNs={tree.nodes[0]!.time_ns}
        scale={scale}
        nowNs={nowNs}
        isChosen={each.id === chosen}
        isFocusable={at === place}
        isDim={onPath !== null && each.id !== chosen && !each.members.some((member) => onPath.has(member.id))}
        onFold={() => fold(each.id, !each.isFolded)}
        onChoose={() => choose(each)}
      />
    );
  };
  const chosenStep = chosen === null ? undefined : steps.find((step) => step.id === chosen);
  return (
    <section className="card waterfall" aria-label={`Trace of ${tree.unit} #${tree.seq}`}>
      <header className="buttons">
        <h2>
          <bdi className="wrap">{tree.nodes[0]?.says}</bdi> #{tree.seq}
        </h2>
        <span className={`state ${tree.state === "waiting" ? "running" : tree.state}`}>{stateText(tree.state)}</span>
        <span className="faint">{summary(tree.nodes, nowNs)}</span>
      </header>
      {tree.why !== null && <p className="problem">{tree.why}</p>}
      {tree.nodes.length > 1 && (
        <div className="filters">
          <label>
            Find{" "}
            <input
              type="search"
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => event.key === "Enter" && next(found, event.shiftKey)}
            />
          </label>
          {text !== "" && (
            <>
              <span className="faint" role="status">
                {found.length === 0 ? "nothing found" : `${found.length} found`}
              </span>
              <button type="button" disabled={found.length === 0} onClick={() => next(found)}>
                Next
              </button>
            </>
          )}
          {failed.length > 0 && (
            <button type="button" className="danger" onClick={() => next(failed)}>
              Next error ({failed.length})
            </button>
          )}
          <label>
            <input type="checkbox" checked={hidesIdle} onChange={(event) => setHidesIdle(event.target.checked)} /> Hide idle time
          </label>
          <label>
            <input type="checkbox" checked={critical} onChange={(event) => setCritical(event.target.checked)} /> Critical path
          </label>
          <label>
            <input type="checkbox" checked={everything} onChange={(event) => setEverything(event.target.checked)} /> All records
          </label>
          <span className="legend">
            <i className="phase person" /> a person <i className="phase queued" /> queued <i className="phase running" /> running
          </span>
        </div>
      )}
      {critical && (
        <p className="faint">
          Critical path: the step that ended last, and what led to it. Time in which a person was waited for counts.
        </p>
      )}
      <TimeAxis scale={scale} />
      <div
        ref={box}
        role="treegrid"
        aria-label="Steps"
        aria-rowcount={rows.length}
        className={windowed ? "spans windowed" : "spans"}
        onKeyDown={onKeys}
        onFocus={(event) => {
          const at = Number(event.target.closest<HTMLElement>("[data-row]")?.dataset.row);
          if (rows[at] !== undefined && awaited.current === null) setFocused(rows[at].id);
        }}
      >
        {windowed ? (
          <div role="presentation" style={{ blockSize: shown.getTotalSize(), position: "relative" }}>
            {shown.getVirtualItems().map((item) => (
              <div
                key={item.key}
                role="presentation"
                style={{ position: "absolute", insetInlineStart: 0, insetInlineEnd: 0, transform: `translateY(${item.start}px)` }}
              >
                {row(item.index)}
              </div>
            ))}
          </div>
        ) : (
          rows.map((_, at) => row(at))
        )}
      </div>
      {chosenStep !== undefined && <StepDetails step={chosenStep} nowNs={nowNs} />}
    </section>
  );
}

function matching(steps: Step[], text: string): Step[] {
  const part = text.trim().toLowerCase();
  return part === "" ? [] : steps.filter(({ node, state, why }) => `${node.kind} ${node.says} ${state} ${why ?? ""}`.toLowerCase().includes(part));
}

function StepDetails({ step: { node, why }, nowNs }: { step: Step; nowNs: number }) {
  return (
    <section className="card" aria-label="Step" data-step={idOf(node)}>
      <p className="wrap">
        <Verbatim text={`${node.kind} ${node.says}`} />
      </p>
      {phasesText([node], nowNs) !== "" && <p>{phasesText([node], nowNs)}</p>}
      {why !== null && (
        <p className="problem">
          <Verbatim text={why} />
        </p>
      )}
      {typeof node.arguments_json === "string" && <Arguments json={node.arguments_json} />}
      {node.arguments_json === null && (
        <p className="mark">
          <strong>Redacted</strong>: the arguments; {node.arguments_problem}.
        </p>
      )}
      <Result node={node} />
      <p className="buttons">
        <Link href={`/journal?unit=${encodeURIComponent(node.unit)}&seq=${node.seq}`}>Open the record</Link>
        <Link href={`/trace?unit=${encodeURIComponent(node.unit)}&seq=${node.seq}`}>Trace from here</Link>
      </p>
    </section>
  );
}

/** The result of a call that has ended: what the model was told and the value, for whoever may see both; and the
 * redacted result, which is all that everybody else sees. */
function Result({ node: { content, content_cut, message_ref, value, value_cut, value_ref, view_ref } }: { node: TraceNode }) {
  return (
    <>
      {content !== undefined && (
        <ToldResult
          content={content}
          cut={
            content_cut !== undefined && (
              <>
                The first {content.length.toLocaleString()} of {content_cut.toLocaleString()} characters. <Download address={message_ref!} />
              </>
            )
          }
          value={value}
          valueCut={
            value_cut !== undefined && (
              <>
                The value has {value_cut.toLocaleString()} bytes. <Download address={value_ref ?? message_ref!} />
              </>
            )
          }
          open
        />
      )}
      {view_ref != null && <BlobHead key={view_ref} address={view_ref} name="Redacted result" opens={content === undefined} />}
    </>
  );
}

function Download({ address }: { address: string }) {
  return (
    <a href={blobPath(address)} download>
      Download all
    </a>
  );
}
