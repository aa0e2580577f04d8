/** A text at two versions: side by side, or on a narrow screen as one column with what went and what came. */
import { diffLines } from "diff";
import { useNarrow } from "../parts/narrow";
import { Verbatim } from "../parts/verbatim";

/** So many lines without a change are shown around a change. */
const CONTEXT = 3;
/** A difference with more rows is cut. */
const MOST_ROWS = 2000;

type Side = { number: number; text: string } | null;
interface DiffRow {
  before: Side;
  after: Side;
  isChanged: boolean;
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Returns the rows of a difference, a change's lines beside each other. */
function rowsOf(before: string, after: string): DiffRow[] {
  const rows: DiffRow[] = [];
  let [left, right] = [0, 0];
  const old = (text: string | undefined): Side => (text === undefined ? null : { number: ++left, text });
  const fresh = (text: string | undefined): Side => (text === undefined ? null : { number: ++right, text });
  const parts = diffLines(before, after);
  for (let place = 0; place < parts.length; place++) {
    const part = parts[place]!;
    const next = parts[place + 1];
    if (!part.added && !part.removed) {
      rows.push(...linesOf(part.value).map((line) => ({ before: old(line), after: fresh(line), isChanged: false })));
      continue;
    }
    const isPair = part.removed && next?.added;
    const gone = part.removed ? linesOf(part.value) : [];
    const come = part.added ? linesOf(part.value) : isPair ? linesOf(next!.value) : [];
    if (isPair) place++;
    for (let row = 0; row < Math.max(gone.length, come.length); row++) {
      rows.push({ before: old(gone[row]), after: fresh(come[row]), isChanged: true });
    }
  }
  return rows;
}

/** Returns the rows near a change; a number stands for so many lines that are left out. */
function nearChanges(rows: DiffRow[]): (DiffRow | number)[] {
  const near = rows.map(() => false);
  rows.forEach((row, place) => {
    if (row.isChanged) near.fill(true, Math.max(0, place - CONTEXT), place + CONTEXT + 1);
  });
  const shown: (DiffRow | number)[] = [];
  rows.forEach((row, place) => {
    const last = shown.at(-1);
    if (near[place]) shown.push(row);
    else if (typeof last === "number") shown[shown.length - 1] = last + 1;
    else shown.push(1);
  });
  return shown;
}

const WORDS = { "-": "removed: ", "+": "added: ", " ": "" };

export function SideBySide({ before, after }: { before: string; after: string }) {
  const narrow = useNarrow();
  const all = nearChanges(rowsOf(before, after));
  const rows = all.slice(0, MOST_ROWS);
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Both versions">
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
                Before
              </th>
              <th scope="col" colSpan={2}>
                After
              </th>
            </tr>
          </thead>
        )}
        <tbody>{narrow ? <Unified rows={rows} /> : rows.map((row, place) => <Pair key={place} row={row} />)}</tbody>
      </table>
      {all.length > MOST_ROWS && (
        <p className="mark">
          <strong>Cut</strong>: the first {MOST_ROWS.toLocaleString()} of {all.length.toLocaleString()} lines.
        </p>
      )}
    </div>
  );
}

function LeftOut({ count, columns }: { count: number; columns: number }) {
  return (
    <tr className="left-out">
      <td colSpan={columns}>{count === 1 ? "1 line is" : `${count.toLocaleString()} lines are`} the same</td>
    </tr>
  );
}

function Pair({ row }: { row: DiffRow | number }) {
  if (typeof row === "number") return <LeftOut count={row} columns={4} />;
  return (
    <tr>
      <Line side={row.before} sign={row.isChanged ? "-" : " "} />
      <Line side={row.after} sign={row.isChanged ? "+" : " "} />
    </tr>
  );
}

function Unified({ rows }: { rows: (DiffRow | number)[] }) {
  const shown: { side: Side; sign: keyof typeof WORDS; count?: number }[] = [];
  let come: Side[] = [];
  const flush = () => {
    shown.push(...come.map((side) => ({ side, sign: "+" as const })));
    come = [];
  };
  for (const row of rows) {
    if (typeof row !== "number" && row.isChanged) {
      if (row.before !== null) shown.push({ side: row.before, sign: "-" });
      if (row.after !== null) come.push(row.after);
      continue;
    }
    flush();
    if (typeof row === "number") shown.push({ side: null, sign: " ", count: row });
    else shown.push({ side: row.after, sign: " " });
  }
  flush();
  return shown.map(({ side, sign, count }, place) =>
    count !== undefined ? (
      <LeftOut key={place} count={count} columns={2} />
    ) : (
      <tr key={place}>
        <Line side={side} sign={sign} withSign />
      </tr>
    ),
  );
}

function Line({ side, sign, withSign = false }: { side: Side; sign: keyof typeof WORDS; withSign?: boolean }) {
  const style = side === null ? "" : sign === "-" ? "removed" : sign === "+" ? "added" : "";
  return (
    <>
      <td className="number faint">{side?.number}</td>
      <td className={style}>
        {side !== null && (
          <pre dir="ltr">
            {withSign && <span aria-hidden="true">{sign} </span>}
            <span className="unseen">{WORDS[sign]}</span>
            <Verbatim text={side.text} />
          </pre>
        )}
      </td>
    </>
  );
}
