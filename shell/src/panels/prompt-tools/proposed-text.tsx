/** A text of a proposal, verbatim, with what the checks found in it. */
import { Verbatim } from "../../parts/verbatim";
import type { Finding } from "../../sdk/review";

/** Returns the address of a field in the page. */
export const fieldId = (path: string) => `field-${path.replace(/[^\w-]+/g, "-")}`;

interface ProposedTextProps {
  /** The name of the field in findings, such as `testCases[1].reply`. */
  path: string;
  text: string;
  findings: Finding[];
}

export function ProposedText({ path, text, findings }: ProposedTextProps) {
  const found = findings.filter((each) => each.field === path);
  return (
    <div id={fieldId(path)} className="proposed-text">
      {text === "" ? (
        <p className="faint">empty</p>
      ) : (
        <pre dir="auto">
          <Highlighted text={text} findings={found} />
        </pre>
      )}
      {found.length > 0 && (
        <ul className="findings">
          {found.map((each, place) => (
            <li key={place}>
              <FindingText finding={each} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

export function FindingText({ finding }: { finding: Finding }) {
  return (
    <>
      <span className={`tag ${finding.severity}`}>{finding.severity === "block" ? "blocks" : "warning"}</span>{" "}
      <code>{finding.code}</code>{" "}
      <bdi>
        <Verbatim text={finding.message} />
      </bdi>
    </>
  );
}

/** Marks the places of findings. They are counted in code points, which a string of JavaScript does not count in. */
function Highlighted({ text, findings }: { text: string; findings: Finding[] }) {
  if (findings.length === 0) return <Verbatim text={text} />;
  const letters = Array.from(text);
  const bounds = findings.flatMap(({ start, end }) => [start, end]).filter((at) => at > 0 && at < letters.length);
  const cuts = [...new Set([0, ...bounds, letters.length])].sort((one, other) => one - other);
  return cuts.slice(0, -1).map((start, place) => {
    const end = cuts[place + 1]!;
    const over = findings.filter((each) => each.start < end && each.end > start);
    const shown = <Verbatim text={letters.slice(start, end).join("")} />;
    if (over.length === 0) return <span key={start}>{shown}</span>;
    const blocks = over.some((each) => each.severity === "block");
    return (
      <mark key={start} className={blocks ? "block" : "warn"} title={over.map((each) => `${each.code}: ${each.message}`).join("\n")}>
        {shown}
      </mark>
    );
  });
}

/** A value of JSON of any form, each text in it with its findings. */
export function ProposedValue({ path, value, findings }: { path: string; value: unknown; findings: Finding[] }) {
  if (typeof value === "string") return <ProposedText path={path} text={value} findings={findings} />;
  if (Array.isArray(value)) {
    return (
      <ol className="proposed-list">
        {value.map((each, at) => (
          <li key={at}>
            <ProposedValue path={`${path}[${at}]`} value={each} findings={findings} />
          </li>
        ))}
      </ol>
    );
  }
  if (typeof value === "object" && value !== null) {
    const nameless = findings.filter((each) => each.field === path);
    return (
      <>
        <dl className="proposed">
          {Object.entries(value).map(([name, held]) => (
            <div key={name}>
              <dt>
                <code>
                  <Verbatim text={name} />
                </code>
              </dt>
              <dd>
                <ProposedValue path={`${path}.${name}`} value={held} findings={findings} />
              </dd>
            </div>
          ))}
        </dl>
        {nameless.map((each, place) => (
          <p key={place}>
            <FindingText finding={each} />
          </p>
        ))}
      </>
    );
  }
  return <code>{JSON.stringify(value)}</code>;
}
