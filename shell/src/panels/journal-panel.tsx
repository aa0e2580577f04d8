/** The journal: all records as they come, or those of one unit, each as JSON with its links. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { Empty, ErrorNote, Loading } from "../parts/notes";
import { Link, navigate, useSearch } from "../router";
import { type JournalRecord, journalGet, journalVerify, sentence } from "../sdk";
import { useRecords } from "./journal-records";
import { BlobHead, JsonView } from "./json-view";
import { Moment } from "./panel-state";
import "./panels.css";

const ROW_PX = 30;
const KINDS = ["event", "intent", "receipt", "approval", "decision", "step", "plan_ended", "manifest", "settled"];
const MOST_FILTERED = 500;

export default function JournalPanel() {
  const search = useSearch();
  const unit = search.get("unit") ?? "";
  const kind = search.get("kind") ?? "";
  const seq = search.get(unit === "" ? "at" : "seq");
  const change = (values: Record<string, string>) => {
    const made = new URLSearchParams(search);
    for (const [name, value] of Object.entries(values)) value === "" ? made.delete(name) : made.set(name, value);
    navigate(`/journal?${made}`, { replace: true });
  };
  return (
    <main className="page wide journal">
      <h1>Journal</h1>
      <form className="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Unit{" "}
          <input
            key={unit}
            defaultValue={unit}
            placeholder="all units"
            onBlur={(event) => event.target.value !== unit && change({ unit: event.target.value, seq: "", at: "" })}
            onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
          />
        </label>
        <label>
          Kind{" "}
          <select value={kind} onChange={(event) => change({ kind: event.target.value })}>
            <option value="">all kinds</option>
            {KINDS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <Verify />
      </form>
      {kind === "" ? (
        <AllRecords key={unit} unit={unit} selected={seq === null ? null : Number(seq)} change={change} />
      ) : (
        <RecordsOfKind key={`${unit} ${kind}`} unit={unit} kind={kind} />
      )}
    </main>
  );
}

interface AllRecordsProps {
  unit: string;
  /** The position, or the number in the unit, of the record that is open. */
  selected: number | null;
  change: (values: Record<string, string>) => void;
}

function AllRecords({ unit, selected, change }: AllRecordsProps) {
  const records = useRecords(unit);
  const first = unit === "" ? 1 : 0;
  const count = records.count ?? 0;
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count, getScrollElement: () => box.current, estimateSize: () => ROW_PX, overscan: 10 });
  const [seen, setSeen] = useState<number>();
  const atEnd = useRef(selected === null);
  const place = selected === null ? null : selected - first;

  useEffect(() => {
    if (count === 0) return;
    if (place !== null && seen === undefined) rows.scrollToIndex(place, { align: "center" });
    else if (atEnd.current) rows.scrollToIndex(count - 1, { align: "end" });
    if (atEnd.current || seen === undefined) setSeen(count);
  }, [count]);
  useEffect(() => {
    if (place === null || count === 0) return;
    rows.scrollToIndex(place, { align: "auto" });
    let tries = 0;
    const focus = () => {
      const row = box.current?.querySelector<HTMLElement>(`[data-place="${place}"]`);
      if (row != null) row.focus({ preventScroll: true });
      else if (tries++ < 30) requestAnimationFrame(focus);
    };
    focus();
  }, [place, count === 0]);

  const open = (to: number) => {
    const found = Math.min(Math.max(to, 0), count - 1);
    atEnd.current = false;
    change({ [unit === "" ? "at" : "seq"]: String(found + first) });
  };
  const onKeys = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowUp: (place ?? count) - 1, ArrowDown: (place ?? -1) + 1, Home: 0, End: count - 1 };
    const to = steps[event.key];
    if (to === undefined) return;
    event.preventDefault();
    open(to);
  };
  const onScroll = () => {
    const at = box.current;
    if (at === null) return;
    atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < ROW_PX;
    if (atEnd.current && seen !== count) setSeen(count);
  };

  if (records.error !== undefined && records.count === undefined) {
    return <ErrorNote message={sentence(records.error)} onRetry={records.reload} />;
  }
  if (records.count === undefined) return <Loading label="Loading the journal" />;
  if (count === 0) return <Empty>There is no record{unit === "" ? " yet" : " of this unit"}.</Empty>;
  const fresh = count - (seen ?? count);
  const record = place === null ? undefined : records.at(place);
  return (
    <>
      <p className="faint">{count.toLocaleString()} records. Arrows, Home and End: move.</p>
      {records.error !== undefined && <ErrorNote message={sentence(records.error)} onRetry={records.reload} />}
      <div className="rows" ref={box} role="listbox" aria-label="Records" tabIndex={place === null ? 0 : -1} onKeyDown={onKeys} onScroll={onScroll}>
        <div role="presentation" style={{ blockSize: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map((row) => {
            const shown = records.at(row.index);
            return (
              <div
                key={row.key}
                role="option"
                aria-selected={row.index === place}
                aria-posinset={row.index + 1}
                aria-setsize={count}
                tabIndex={row.index === place ? 0 : -1}
                data-place={row.index}
                className={`row ${row.index === place ? "selected" : ""}`}
                style={{ position: "absolute", insetInlineStart: 0, insetInlineEnd: 0, blockSize: ROW_PX, transform: `translateY(${row.start}px)` }}
                onClick={() => open(row.index)}
              >
                {shown === undefined ? "…" : <Row record={shown} />}
              </div>
            );
          })}
        </div>
      </div>
      {fresh > 0 && (
        <button
          type="button"
          onClick={() => {
            atEnd.current = true;
            rows.scrollToIndex(count - 1, { align: "end" });
            setSeen(count);
          }}
        >
          {fresh} new
        </button>
      )}
      {record !== undefined && <RecordCard record={record} />}
    </>
  );
}

function Row({ record }: { record: JournalRecord }) {
  const failed = record.body?.status === "error" || record.body?.error !== undefined || record.body?.verdict === "deny";
  return (
    <>
      <span className="faint">{record.position}</span>
      <span className={failed ? "state failed" : ""}>{failed ? `${record.kind}: failed` : record.kind}</span>
      <span className="what">{String(record.body?.schema ?? record.body?.kind ?? "")}</span>
      <bdi className="unit">
        {record.unit} #{record.seq}
      </bdi>
      <Moment ns={record.time_ns} />
    </>
  );
}

function RecordCard({ record }: { record: JournalRecord }) {
  const place = `unit=${encodeURIComponent(record.unit)}&seq=${record.seq}`;
  return (
    <section className="card" aria-label="Record">
      <h2>
        {record.kind} <bdi className="wrap">{record.unit}</bdi> #{record.seq}
      </h2>
      <p className="buttons">
        <Link href={`/journal?${place}`}>Link to this record</Link>
        <Link href={`/trace?${place}`}>Trace</Link>
        {record.redacted && <span className="tag">redacted: what is private is withheld</span>}
      </p>
      {record.refs.map((ref) => (
        <BlobHead key={ref} address={ref} />
      ))}
      <JsonView value={record} label="The record as JSON" />
    </section>
  );
}

/** The records of one kind, from the first on; the server looks for them. */
function RecordsOfKind({ unit, kind }: { unit: string; kind: string }) {
  const [found, setFound] = useState<JournalRecord[]>();
  const [next, setNext] = useState<number | null>(0);
  const [problem, setProblem] = useState("");
  const [open, setOpen] = useState<JournalRecord>();
  const more = async () => {
    setProblem("");
    try {
      const page = await journalGet({ from: next ?? 0, limit: MOST_FILTERED, kind, unit: unit === "" ? undefined : unit });
      setFound((old) => [...(old ?? []), ...page.records]);
      setNext(page.next);
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  useEffect(() => void more(), []);
  if (problem !== "") return <ErrorNote message={problem} onRetry={more} />;
  if (found === undefined) return <Loading label="Loading the records" />;
  if (found.length === 0) return <Empty>No record is a {kind} here.</Empty>;
  return (
    <>
      <ul className="rows plain-rows" aria-label="Records" tabIndex={0}>
        {found.map((record) => (
          <li key={record.position}>
            <button type="button" className="row" aria-expanded={open === record} onClick={() => setOpen(record)}>
              <Row record={record} />
            </button>
          </li>
        ))}
      </ul>
      {next !== null && (
        <button type="button" onClick={more}>
          Show more
        </button>
      )}
      {open !== undefined && <RecordCard record={open} />}
    </>
  );
}

function Verify() {
  const [said, setSaid] = useState("");
  const [busy, setBusy] = useState(false);
  const check = async () => {
    setBusy(true);
    try {
      const done = await journalVerify();
      setSaid(done.ok ? `Sound: ${done.records} records, seal ${done.seal}` : `Damaged: ${done.problem}`);
    } catch (error) {
      setSaid(sentence(error));
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" onClick={check} disabled={busy}>
        {busy ? "Verifying …" : "Verify"}
      </button>
      <span role="status" className="wrap">
        {said}
      </span>
    </>
  );
}
