/** The rows of a difference between two texts: lines that went, lines that came, and a few around them. */
import { structuredPatch } from "diff";
import { Verbatim } from "../../parts/verbatim";

const WORDS = { "-": "removed", "+": "added", " ": "the same" };

export default function DiffRows({ before, after }: { before: string; after: string }) {
  const { hunks } = structuredPatch("", "", before, after, "", "", { context: 3 });
  if (hunks.length === 0) return <p className="faint">No line changes.</p>;
  return (
    <div className="diff-rows" tabIndex={0} role="group" aria-label="Changed lines">
      {hunks.map((hunk) => (
        <pre key={hunk.newStart} dir="ltr">
          <span className="hunk">
            from line {hunk.newStart}
            {"\n"}
          </span>
          {hunk.lines.map((line, place) => {
            const sign = line[0] as keyof typeof WORDS;
            return (
              <span key={place} className={sign === "+" ? "added" : sign === "-" ? "removed" : ""} title={WORDS[sign]}>
                {sign} <Verbatim text={line.slice(1)} />
                {"\n"}
              </span>
            );
          })}
        </pre>
      ))}
    </div>
  );
}
