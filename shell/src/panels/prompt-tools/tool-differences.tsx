/** The fields in which two versions of a prompt tool differ. */
import type { FieldDifference } from "../../sdk/review";
import { DifferenceTable } from "../difference-table";

interface ToolDifferencesProps {
  fields: FieldDifference[];
  /** What the two sides are. */
  before?: string;
  after?: string;
}

export function ToolDifferences({ fields, before = "The live tool when it was proposed", after = "As it is proposed" }: ToolDifferencesProps) {
  if (fields.length === 0) return <p className="faint">No field differs.</p>;
  return fields.map((field) => (
    <div key={field.field} className="column">
      <h3>
        <code>{field.field}</code>
      </h3>
      <DifferenceTable
        rows={field.rows}
        before={field.old === null ? "There is none" : before}
        after={field.new === null ? "Deleted" : after}
        label={`Both versions of ${field.field}`}
        dir="auto"
      />
    </div>
  ));
}
