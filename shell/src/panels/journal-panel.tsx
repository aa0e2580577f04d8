/** The journal: all records as they come, calls with how they ended, or JSON; searched, and each with its links. */
import type { Virtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { Empty, Loading, Problem } from "../parts/notes";
import { Link, navigate, useSearch } from "../router";
import { useRows, useSearchRows } from "./journal-rows";
import { RecordAt } from "./record-card";
import { RecordList, ROW_PX } from "./record-list";
import { Verify } from "./verify";
import "./panels.css";

const KINDS = ["event", "intent", "receipt", "approval", "decision", "step", "plan_ended", "manifest", "settled"];
const VIEWS = { records: "All records", calls: "Calls", json: "JSON" };

type Change = (values: Record<string, string>) => void;

export default function JournalPanel() {
  const search = useSearch();
  const [unit, kind, text] = ["unit", "kind", "text"].map((name) => search.get(name) ?? "") as [string, string, string];
  const attention = search.get("attention") === "true";
  const view = search.get("view") ?? "records";
  const searched = kind !== "" || text !== "" || attention || view === "calls";
  const at = search.get("at");
  const seq = search.get("seq");
  const pathWith = (values: Record<string, string>) => {
    const made = new URLSearchParams(search);
    for (const [name, value] of Object.entries(values)) value === "" ? made.delete(name) : made.set(name, value);
    return `/journal?${made}`;
  };
  const change: Change = (values) => navigate(pathWith(values), { replace: true });
  const clear = { at: "", seq: "" };
  return (
    <main className="page wide journal">
      <div className="title-line">
        <h1>Journal</h1>
        <nav aria-label="Views" className="views">
          {Object.entries(VIEWS).map(([name, label]) => (
            <Link key={name} href={pathWith({ view: name === "records" ? "" : name, ...clear })} aria-current={name === view ? "page" : undefined}>
              {label}
            </Link>
          ))}
        </nav>
      </div>
      <form className="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Filter label="Text" value={text} placeholder="in the record" onGiven={(given) => change({ text: given, ...clear })} />
        <Filter label="Unit" value={unit} placeholder="all units" onGiven={(given) => change({ unit: given, ...clear })} />
        <label>
          Kind{" "}
          <select value={kind} onChange={(event) => change({ kind: event.target.value, ...clear })}>
            <option value="">all kinds</option>
            {KINDS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <button type="button" aria-pressed={attention} onClick={() => change({ attention: attention ? "" : "true", ...clear })}>
          Failed or waiting
        </button>
        {(searched || unit !== "") && view !== "json" && <Link href="/journal">Clear</Link>}
      </form>
      <Verify />
      {view === "json" ? (
        <OneByOne key={unit} unit={unit} chosen={numberOf(unit === "" ? at : seq)} change={change} />
      ) : searched ? (
        <FoundRecords
          query={{ text, unit: unit === "" ? undefined : unit, kind: kind === "" ? undefined : kind, attention, calls: view === "calls" }}
          position={numberOf(at)}
          change={change}
        />
      ) : (
        <AllRecords key={unit} unit={unit} chosen={numberOf(unit === "" ? at : seq)} change={change} />
      )}
    </main>
  );
}

function numberOf(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

interface FilterProps {
  label: string;
  value: string;
  placeholder: string;
  onGiven: (text: string) => void;
}

/** A field whose text counts once it is left or Enter is pressed. */
function Filter({ label, value, placeholder, onGiven }: FilterProps) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const give = () => typed.trim() !== value && onGiven(typed.trim());
  return (
    <label>
      {label}{" "}
      <input
        type="search"
        dir="auto"
        value={typed}
        placeholder={placeholder}
        onChange={(event) => setTyped(event.target.value)}
        onBlur={give}
        onKeyDown={(event) => event.key === "Enter" && give()}
      />
    </label>
  );
}

interface AllRecordsProps {
  unit: string;
  /** The position, or the number in the unit, of the record that is open. */
  chosen: number | null;
  change: Change;
}

function AllRecords({ unit, chosen, change }: AllRecordsProps) {
  const records = useRows(unit);
  const first = unit === "" ? 1 : 0;
  const count = records.count ?? 0;
  const box = useRef<HTMLDivElement>(null);
  const list = useRef<Virtualizer<HTMLDivElement, Element>>(null);
  const [seen, setSeen] = useState<number>();
  const atEnd = useRef(chosen === null);
  const scrolled = useRef(0);
  const place = chosen === null ? null : chosen - first;

  useEffect(() => {
    if (count === 0) return;
    if (place !== null && seen === undefined) list.current?.scrollToIndex(place, { align: "center" });
    else if (atEnd.current) list.current?.scrollToIndex(count - 1, { align: "end" });
    if (atEnd.current || seen === undefined) setSeen(count);
  }, [count]);
  const open = (to: number) => {
    atEnd.current = false;
    change({ [unit === "" ? "at" : "seq"]: String(to + first) });
  };
  const onScroll = () => {
    const shown = box.current;
    if (shown === null) return;
    if (shown.scrollHeight - shown.scrollTop - shown.clientHeight < ROW_PX) atEnd.current = true;
    else if (shown.scrollTop < scrolled.current) atEnd.current = false;  // somebody looks back; new rows alone scroll nothing
    scrolled.current = shown.scrollTop;
    if (atEnd.current && seen !== count) setSeen(count);
  };

  if (records.error !== undefined && records.count === undefined) return <Problem error={records.error} onRetry={records.reload} />;
  if (records.count === undefined) return <Loading label="Loading the journal" />;
  if (count === 0) return <Empty>There is no record{unit === "" ? " yet" : " of this unit"}.</Empty>;
  const fresh = count - (seen ?? count);
  return (
    <>
      {records.error !== undefined && <Problem error={records.error} onRetry={records.reload} readAt={records.readAt} />}
      <RecordList label="Records" count={count} at={records.at} chosen={place} onChoose={open} box={box} onList={(made) => (list.current = made)} onScroll={onScroll} />
      <p className="list-foot">
        <span className="faint">{count.toLocaleString()} records.</span> <KeysNote />
        {fresh > 0 && (
          <button
            type="button"
            onClick={() => {
              atEnd.current = true;
              list.current?.scrollToIndex(count - 1, { align: "end" });
              setSeen(count);
            }}
          >
            {fresh.toLocaleString()} new
          </button>
        )}
      </p>
      {chosen !== null && <RecordAt unit={unit === "" ? undefined : unit} at={chosen} />}
    </>
  );
}

function KeysNote() {
  return <span className="faint wide-only">Arrows, Page keys, Home and End choose; Enter goes to the record.</span>;
}

interface FoundRecordsProps {
  query: { text: string; unit?: string; kind?: string; attention: boolean; calls: boolean };
  position: number | null;
  change: Change;
}

function FoundRecords({ query, position, change }: FoundRecordsProps) {
  const found = useSearchRows(JSON.stringify(query), query);
  const box = useRef<HTMLDivElement>(null);
  const rows = found.rows;
  const chosen = rows?.findIndex((row) => row.position === position) ?? -1;
  if (rows === undefined && found.error !== undefined) return <Problem error={found.error} onRetry={found.again} />;
  if (rows === undefined) return <Loading label="Searching the journal" />;
  const what = query.calls ? "calls" : "records";
  return (
    <>
      {found.error !== undefined && <Problem error={found.error} onRetry={found.more} readAt={found.readAt} />}
      {rows.length > 0 ? (
        <RecordList
          label={query.calls ? "Calls" : "Records"}
          count={rows.length}
          at={(place) => rows[place]}
          chosen={chosen < 0 ? null : chosen}
          onChoose={(place) => change({ at: String(rows[place]!.position), seq: "" })}
          box={box}
        />
      ) : (
        <Empty>
          {found.hasMore ? `None of the newest ${found.lookedAt.toLocaleString()} records fits.` : `There are no such ${what}.`}
        </Empty>
      )}
      <p className="list-foot">
        <span className="faint" role="status">
          {rows.length.toLocaleString()} {what}, newest first, of {found.lookedAt.toLocaleString()} records.
        </span>
        {found.hasMore && (
          <button type="button" disabled={found.busy} onClick={found.more}>
            {found.busy ? "Searching …" : "Search older records"}
          </button>
        )}
        {found.fresh > 0 && (
          <button type="button" onClick={found.again}>
            {found.fresh.toLocaleString()} new; search again
          </button>
        )}
      </p>
      {position !== null && <RecordAt at={position} />}
    </>
  );
}

/** The records as JSON, one at a time: a slider, and the keys ← → or H L. */
function OneByOne({ unit, chosen, change }: AllRecordsProps) {
  const { count, error, reload } = useRows(unit);
  const first = unit === "" ? 1 : 0;
  if (error !== undefined && count === undefined) return <Problem error={error} onRetry={reload} />;
  if (count === undefined) return <Loading label="Loading the journal" />;
  if (count === 0) return <Empty>There is no record{unit === "" ? " yet" : " of this unit"}.</Empty>;
  const last = count - 1 + first;
  const at = Math.min(Math.max(chosen ?? last, first), last);
  const go = (to: number) => to >= first && to <= last && change({ [unit === "" ? "at" : "seq"]: String(to) });
  const onKeys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isSlider = (event.target as HTMLElement).matches("input");
    if (event.key === "h" || (event.key === "ArrowLeft" && !isSlider)) go(at - 1);
    else if (event.key === "l" || (event.key === "ArrowRight" && !isSlider)) go(at + 1);
  };
  return (
    <div className="column" onKeyDown={onKeys}>
      <p className="buttons">
        <button type="button" disabled={at <= first} onClick={() => go(at - 1)}>
          Older
        </button>
        <input className="slider" type="range" aria-label="Record" min={first} max={last} value={at} onChange={(event) => go(Number(event.target.value))} />
        <button type="button" disabled={at >= last} onClick={() => go(at + 1)}>
          Newer
        </button>
        <span className="faint">
          {at} of {last}. <span className="wide-only">H and L, or the arrow keys: older and newer.</span>
        </span>
      </p>
      <RecordAt unit={unit === "" ? undefined : unit} at={at} />
    </div>
  );
}
