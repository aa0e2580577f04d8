/** A windowed list of records: however many there are, only those in view are mounted. One of them can be chosen. */
import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type RefObject, useEffect, useRef } from "react";
import { placeForKey } from "../parts/list-keys";
import { useNarrow } from "../parts/narrow";
import { durationText } from "../parts/time";
import { hasRun, stateText } from "../parts/call-state";
import { Verbatim } from "../parts/verbatim";
import type { JournalRow } from "../sdk";
import { Moment } from "./panel-state";

export const ROW_PX = 30;
/** On a narrow screen a row has two lines, and is as high as a finger. */
const NARROW_ROW_PX = 46;

interface RecordListProps {
  label: string;
  count: number;
  at: (place: number) => JournalRow | undefined;
  /** The place of the chosen row. */
  chosen: number | null;
  onChoose: (place: number) => void;
  box: RefObject<HTMLDivElement | null>;
  onList?: (list: Virtualizer<HTMLDivElement, Element>) => void;
  onScroll?: () => void;
}

export function RecordList({ label, count, at, chosen, onChoose, box, onList, onScroll }: RecordListProps) {
  const px = useNarrow() ? NARROW_ROW_PX : ROW_PX;
  const rows = useVirtualizer({ count, getScrollElement: () => box.current, estimateSize: () => px, overscan: 10 });
  useEffect(() => {
    rows.measure();
  }, [px]);
  const list = useRef(rows);
  list.current = rows;
  useEffect(() => {
    onList?.(list.current);
  }, []);
  const awaited = useRef<number>(null);
  useEffect(() => {
    if (chosen === null || count === 0) return;
    rows.scrollToIndex(chosen, { align: "auto" });
    awaited.current = chosen;
  }, [chosen, count === 0]);
  useEffect(() => {
    if (awaited.current === null) return;
    const row = box.current?.querySelector<HTMLElement>(`[data-place="${awaited.current}"]`);
    if (row == null) return;
    row.focus({ preventScroll: true });
    awaited.current = null;
  });

  const onKeys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") {
      document.querySelector<HTMLElement>("[data-record-card]")?.focus();
      return;
    }
    const to = placeForKey(event.key, chosen ?? (event.key === "ArrowUp" ? count : -1), count);
    if (to === null) return;
    event.preventDefault();
    onChoose(to);
  };
  return (
    <div className="rows" ref={box} role="listbox" aria-label={label} tabIndex={chosen === null ? 0 : -1} onKeyDown={onKeys} onScroll={onScroll} style={{ blockSize: `min(50vh, ${count * px + 2}px)` }}>
      <div role="presentation" style={{ blockSize: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((row) => {
          const shown = at(row.index);
          return (
            <div
              key={row.key}
              role="option"
              aria-selected={row.index === chosen}
              aria-posinset={row.index + 1}
              aria-setsize={count}
              tabIndex={row.index === chosen ? 0 : -1}
              data-place={row.index}
              className={`row ${row.index === chosen ? "selected" : ""}`}
              style={{ position: "absolute", insetInlineStart: 0, insetInlineEnd: 0, blockSize: px, transform: `translateY(${row.start}px)` }}
              onClick={() => onChoose(row.index)}
            >
              {shown === undefined ? "…" : <RowCells row={shown} />}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** What a record says, without who admitted it, which the record itself tells. */
export function mainText(row: { says: string; why?: string | null }): string {
  return [row.says.replace(/ \(by [^()]*\)$/, ""), row.why].filter(Boolean).join(": ");
}

function RowCells({ row }: { row: JournalRow }) {
  const took = row.ended_ns != null && hasRun(row.state ?? "") ? ` ${durationText((row.ended_ns - row.time_ns) / 1e6)}` : "";
  return (
    <>
      <span className="faint number">{row.position}</span>
      <span className="kind">{row.kind}</span>
      <span className="what" title={mainText(row)}>
        <bdi>
          <Verbatim text={mainText(row)} />
        </bdi>
      </span>
      <span className={`state ${row.state ?? ""}`}>
        {stateText(row.state ?? "", row.by)}
        {took}
      </span>
      <span className="unit">
        <bdi>{row.unit}</bdi> #{row.seq}
      </span>
      <Moment ns={row.time_ns} />
    </>
  );
}
