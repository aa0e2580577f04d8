/** A text at two versions, compared line by line. */
import { diffLines } from "diff";
import type { DiffRow, DiffSide } from "../sdk/review";
import { DifferenceTable } from "./difference-table";

/** So many lines without a change are shown around a change. */
const CONTEXT = 3;
/** A difference with more rows is cut. */
const MOST_ROWS = 2000;

type LineRow = Exclude<DiffRow, { kind: "gap" }>;

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

const sideOf = (line: number, text: string): DiffSide => ({ line, spans: [{ text, changed: false }] });

/** Returns the rows of a difference, a change's lines beside each other. */
function rowsOf(before: string, after: string): LineRow[] {
  const rows: LineRow[] = [];
  let [left, right] = [0, 0];
  const old = (text: string | undefined) => (text === undefined ? null : sideOf(++left, text));
  const fresh = (text: string | undefined) => (text === undefined ? null : sideOf(++right, text));
  const parts = diffLines(before, after);
  for (let place = 0; place < parts.length; place++) {
    const part = parts[place]!;
    const next = parts[place + 1];
    if (!part.added && !part.removed) {
      rows.push(...linesOf(part.value).map((line) => ({ kind: "same" as const, old: old(line), new: fresh(line) })));
      continue;
    }
    const isPair = part.removed && next?.added;
    const gone = part.removed ? linesOf(part.value) : [];
    const come = part.added ? linesOf(part.value) : isPair ? linesOf(next!.value) : [];
    if (isPair) place++;
    for (let row = 0; row < Math.max(gone.length, come.length); row++) {
      rows.push({ kind: "changed", old: old(gone[row]), new: fresh(come[row]) });
    }
  }
  return rows;
}

/** Returns the rows near a change; a gap stands for the lines that are left out. */
function nearChanges(rows: LineRow[]): DiffRow[] {
  const near = rows.map(() => false);
  rows.forEach((row, place) => {
    if (row.kind !== "same") near.fill(true, Math.max(0, place - CONTEXT), place + CONTEXT + 1);
  });
  const shown: DiffRow[] = [];
  rows.forEach((row, place) => {
    const last = shown.at(-1);
    if (near[place]) shown.push(row);
    else if (last?.kind === "gap") last.lines++;
    else shown.push({ kind: "gap", lines: 1 });
  });
  return shown;
}

interface SideBySideProps {
  before: string;
  after: string;
  /** The headings of the two sides. */
  labels?: [string, string];
}

export function SideBySide({ before, after, labels = ["Before", "After"] }: SideBySideProps) {
  const all = nearChanges(rowsOf(before, after));
  return (
    <>
      <DifferenceTable rows={all.slice(0, MOST_ROWS)} before={labels[0]} after={labels[1]} label="Both versions" dir="ltr" />
      {all.length > MOST_ROWS && (
        <p className="mark">
          <strong>Cut</strong>: the first {MOST_ROWS.toLocaleString()} of {all.length.toLocaleString()} lines.
        </p>
      )}
    </>
  );
}
