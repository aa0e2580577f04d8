/** What a proposal proposes, whole and verbatim: the fields of the tool, why, examples. */
import type { Finding, ProposalBody } from "../../sdk/review";
import { ProposedText } from "./proposed-text";
import { FIELDS } from "./tool-text";

interface ProposedProps {
  body: ProposalBody;
  findings: Finding[];
}

export function ProposedTool({ body, findings }: ProposedProps) {
  return (
    <section className="card" aria-labelledby="proposed-tool">
      <h2 id="proposed-tool">{body.proposalType === "delete" ? "The tool that is deleted" : "The tool as it is proposed"}</h2>
      <dl className="proposed">
        {FIELDS.map(([name, label]) => (
          <div key={name}>
            <dt>
              {label} {label.toLowerCase() !== name && <code>{name}</code>}
            </dt>
            <dd>
              <ProposedText path={name} text={String(body[name] ?? "")} findings={findings} />
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

export function Rationale({ body, findings }: ProposedProps) {
  return (
    <section className="card" aria-labelledby="rationale">
      <h2 id="rationale">Why</h2>
      <ProposedText path="rationale" text={body.rationale} findings={findings} />
    </section>
  );
}

export function Examples({ body, findings }: ProposedProps) {
  if (body.examples.length === 0) return null;
  return (
    <section className="card" aria-labelledby="examples">
      <h2 id="examples">Examples</h2>
      <ol className="proposed-list">
        {body.examples.map((example, at) => (
          <li key={at}>
            <dl className="proposed">
              {(["input", "expected"] as const).map((name) => (
                <div key={name}>
                  <dt>{name === "input" ? "Input" : "Expected"}</dt>
                  <dd>
                    <ProposedText path={`examples[${at}].${name}`} text={example[name]} findings={findings} />
                  </dd>
                </div>
              ))}
            </dl>
          </li>
        ))}
      </ol>
    </section>
  );
}
