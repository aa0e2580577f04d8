/** One record: its links, its blobs, and the whole as JSON. */
import { useLive } from "../live/use-live";
import { Redacted, withheldNames } from "../parts/marks";
import { Link } from "../router";
import { type JournalRecord, journalGet } from "../sdk";
import { BlobHead, JsonView } from "./json-view";
import { PanelState } from "./panel-state";

/** Where a record is: its position, or its number in a unit. */
export interface RecordPlace {
  unit?: string;
  at: number;
}

export function RecordAt({ unit, at }: RecordPlace) {
  const live = useLive(`record ${unit} ${at}`, () => journalGet({ unit, from: at, limit: 1 }), () => false);
  return (
    <PanelState live={live} loading="Loading the record" empty="There is no such record." isEmpty={(data) => data.records.length === 0}>
      {(data) => <RecordCard record={data.records[0]!} />}
    </PanelState>
  );
}

function RecordCard({ record }: { record: JournalRecord }) {
  const place = `unit=${encodeURIComponent(record.unit)}&seq=${record.seq}`;
  const names = record.redacted ? withheldNames(record.body) : [];
  const withheld = names.length > 0 || record.body?.$withheld === true;
  return (
    <section className="card" aria-label="Record" data-record-card tabIndex={-1}>
      <h2>
        {record.kind} <bdi className="wrap">{record.unit}</bdi> #{record.seq}
      </h2>
      <p className="buttons">
        <Link href={`/journal?${place}`}>Link to this record</Link>
        <Link href={`/trace?${place}`}>Trace</Link>
        {typeof record.cause === "number" && (
          <Link href={`/journal?unit=${encodeURIComponent(record.unit)}&seq=${record.cause}`}>Its cause</Link>
        )}
      </p>
      {withheld && <Redacted names={names} />}
      {record.refs.length > 0 && (
        <details>
          <summary>
            {record.refs.length} {record.refs.length === 1 ? "blob" : "blobs"} that the record names
          </summary>
          {record.refs.map((ref) => (
            <BlobHead key={ref} address={ref} />
          ))}
        </details>
      )}
      <JsonView value={record} redacted={record.redacted} label="The record as JSON" />
    </section>
  );
}
