/** The fields in which two versions of a prompt tool differ: side by side, or in one column on a narrow screen. */
import { useNarrow } from "../../parts/narrow";
import { Verbatim } from "../../parts/verbatim";
import type { DiffRow, DiffSide, FieldDifference } from "../../sdk/review";

const WORDS = { "-": "removed: ", "+": "added: ", " ": "" };
type Sign = keyof typeof WORDS;

interface ToolDifferencesProps {
  fields: FieldDifference[];
  /** What the two sides are. */
  before?: string;
  after?: string;
}

export function ToolDifferences({ fields, before = "The live tool when it was proposed", after = "As it is proposed" }: ToolDifferencesProps) {
  const narrow = useNarrow();
  if (fields.length === 0) return <p className="faint">No field differs.</p>;
  return fields.map((field) => (
    <div key={field.field} className="column">
      <h3>
        <code>{field.field}</code>
      </h3>
      <div className="scroll" tabIndex={0} role="group" aria-label={`Both versions of ${field.field}`}>
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
                  {field.old === null ? "There is none" : before}
                </th>
                <th scope="col" colSpan={2}>
                  {field.new === null ? "Deleted" : after}
                </th>
              </tr>
            </thead>
          )}
          <tbody>{narrow ? <OneColumn rows={field.rows} /> : field.rows.map((row, place) => <Pair key={place} row={row} />)}</tbody>
        </table>
      </div>
    </div>
  ));
}

function LeftOut({ lines, columns }: { lines: number; columns: number }) {
  return (
    <tr className="left-out">
      <td colSpan={columns}>{lines === 1 ? "1 line is" : `${lines.toLocaleString()} lines are`} the same</td>
    </tr>
  );
}

function Pair({ row }: { row: DiffRow }) {
  if (row.kind === "gap") return <LeftOut lines={row.lines} columns={4} />;
  return (
    <tr>
      <Line side={row.old} sign={row.kind === "same" ? " " : "-"} />
      <Line side={row.new} sign={row.kind === "same" ? " " : "+"} />
    </tr>
  );
}

/** What went stands before what came, for each run of changed rows. */
function OneColumn({ rows }: { rows: DiffRow[] }) {
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
        <Line side={side} sign={sign} withSign />
      </tr>
    ),
  );
}

function Line({ side, sign, withSign = false }: { side: DiffSide | null; sign: Sign; withSign?: boolean }) {
  const style = side === null ? "" : sign === "-" ? "removed" : sign === "+" ? "added" : "";
  const isPartly = side !== null && side.spans.some((span) => !span.changed);
  return (
    <>
      <td className="number faint">{side?.line}</td>
      <td className={style}>
        {side !== null && (
          <pre dir="auto">
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
