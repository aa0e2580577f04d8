/** The lines in which two texts differ: side by side, or on a narrow screen in one column. */
import { useNarrow } from "../parts/narrow";
import { Verbatim } from "../parts/verbatim";
import type { DiffRow, DiffSide } from "../sdk/review";

const WORDS = { "-": "removed: ", "+": "added: ", " ": "" };
type Sign = keyof typeof WORDS;
type Direction = "auto" | "ltr";

interface DifferenceTableProps {
  rows: DiffRow[];
  /** The headings of the two sides. */
  before: string;
  after: string;
  /** What a screen reader calls the table. */
  label: string;
  dir: Direction;
}

export function DifferenceTable({ rows, before, after, label, dir }: DifferenceTableProps) {
  const narrow = useNarrow();
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label={label}>
      <table className={narrow ? "unified" : "side-by-side"}>
        <colgroup>
          {["line-number", "", "line-number", ""].slice(0, narrow ? 2 : 4).map((name, place) => (
            <col key={place} className={name} />
          ))}
        </colgroup>
        {!narrow && (
          <thead>
            <tr>
              <th scope="col" colSpan={2}>
                {before}
              </th>
              <th scope="col" colSpan={2}>
                {after}
              </th>
            </tr>
          </thead>
        )}
        <tbody>{narrow ? <OneColumn rows={rows} dir={dir} /> : rows.map((row, place) => <Pair key={place} row={row} dir={dir} />)}</tbody>
      </table>
    </div>
  );
}

function LeftOut({ lines, columns }: { lines: number; columns: number }) {
  return (
    <tr className="left-out">
      <td colSpan={columns}>{lines === 1 ? "1 line is" : `${lines.toLocaleString()} lines are`} the same</td>
    </tr>
  );
}

function Pair({ row, dir }: { row: DiffRow; dir: Direction }) {
  if (row.kind === "gap") return <LeftOut lines={row.lines} columns={4} />;
  return (
    <tr>
      <Line side={row.old} sign={row.kind === "same" ? " " : "-"} dir={dir} />
      <Line side={row.new} sign={row.kind === "same" ? " " : "+"} dir={dir} />
    </tr>
  );
}

/** What went stands before what came, for each run of changed rows. */
function OneColumn({ rows, dir }: { rows: DiffRow[]; dir: Direction }) {
  const shown: { side: DiffSide | null; sign: Sign; gap?: number }[] = [];
  let come: DiffSide[] = [];
  const flush = () => {
    shown.push(...come.map((side) => ({ side, sign: "+" as const })));
    come = [];
  };
  for (const row of rows) {
    if (row.kind === "gap" || row.kind === "same") {
      flush();
      shown.push(row.kind === "gap" ? { side: null, sign: " ", gap: row.lines } : { side: row.new, sign: " " });
      continue;
    }
    if (row.old !== null) shown.push({ side: row.old, sign: "-" });
    if (row.new !== null) come.push(row.new);
  }
  flush();
  return shown.map(({ side, sign, gap }, place) =>
    gap !== undefined ? (
      <LeftOut key={place} lines={gap} columns={2} />
    ) : (
      <tr key={place}>
        <Line side={side} sign={sign} dir={dir} withSign />
      </tr>
    ),
  );
}

interface LineProps {
  side: DiffSide | null;
  sign: Sign;
  dir: Direction;
  withSign?: boolean;
}

function Line({ side, sign, dir, withSign = false }: LineProps) {
  const style = side === null ? "" : sign === "-" ? "removed" : sign === "+" ? "added" : "";
  const isPartly = side !== null && side.spans.some((span) => !span.changed);
  return (
    <>
      <td className="number faint">{side?.line}</td>
      <td className={style}>
        {side !== null && (
          <pre dir={dir}>
            {withSign && <span aria-hidden="true">{sign} </span>}
            <span className="unseen">{WORDS[sign]}</span>
            {side.spans.map((span, place) =>
              span.changed && isPartly ? (
                <strong key={place} className="changed-part">
                  <Verbatim text={span.text} />
                </strong>
              ) : (
                <Verbatim key={place} text={span.text} />
              ),
            )}
          </pre>
        )}
      </td>
    </>
  );
}
