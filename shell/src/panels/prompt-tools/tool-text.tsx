/** The fields of a prompt tool, whole and verbatim. */
import { Verbatim } from "../../parts/verbatim";
import type { ProposalBody } from "../../sdk/review";

/** The fields of a prompt tool, in the order of its record. */
export const FIELDS: [name: keyof ProposalBody & string, label: string][] = [
  ["id", "Id"],
  ["name", "Name"],
  ["archetype", "Archetype"],
  ["scope", "Scope"],
  ["usageNotes", "When to use it"],
  ["goals", "Goals"],
  ["guardrails", "Guardrails"],
  ["prompt", "Prompt"],
];

/** Fields that the record lacks are left out. */
export function ToolText({ record }: { record: Record<string, string> }) {
  return (
    <dl className="tool-text">
      {FIELDS.filter(([name]) => record[name] !== undefined).map(([name, label]) => (
        <div key={name}>
          <dt>{label}</dt>
          <dd>
            {record[name] === "" ? (
              <p className="faint">empty</p>
            ) : (
              <pre dir="auto">
                <Verbatim text={record[name]!} />
              </pre>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}
