/** Data as JSON text, cut at a length that a page can show, and the beginning of a blob. */
import { useEffect, useState } from "react";
import { Cut, Erased, MarkedJson } from "../parts/marks";
import { Problem } from "../parts/notes";
import { Verbatim } from "../parts/verbatim";
import { ApiError, blobHead, blobPath, erasureOf, type Head } from "../sdk";
import { Moment } from "./panel-state";

const LONGEST = 50_000;
const HEAD_BYTES = 4096;

interface JsonViewProps {
  value: unknown;
  label: string;
  /** Whether the server withheld parts of the value from this caller. */
  redacted?: boolean;
}

export function JsonView({ value, label, redacted = false }: JsonViewProps) {
  const text = JSON.stringify(value, null, 2) ?? "null";
  const head = text.slice(0, LONGEST);
  return (
    <div className="json" tabIndex={0} role="group" aria-label={label}>
      <pre dir="ltr">{redacted ? <MarkedJson text={head} /> : <Verbatim text={head} />}</pre>
      {text.length > LONGEST && <Cut shown={LONGEST} whole={text.length} of="characters" />}
    </div>
  );
}

type Found = { head: Head } | { erased: { actor: string; why: string; time_ns: number } };

interface BlobHeadProps {
  address: string;
  name?: string;
  /** Whether the first bytes are shown at once. */
  opens?: boolean;
}

/** A blob by its address: its size and first bytes on demand, and the whole as a download. */
export function BlobHead({ address, name, opens = false }: BlobHeadProps) {
  const [found, setFound] = useState<Found>();
  const [problem, setProblem] = useState<unknown>();
  const look = async () => {
    setProblem(undefined);
    try {
      setFound({ head: await blobHead(address, HEAD_BYTES) });
    } catch (error) {
      const erased = error instanceof ApiError && error.code === "erased" ? await erasureOf(address).catch(() => null) : null;
      if (erased !== null) setFound({ erased });
      else setProblem(error);
    }
  };
  useEffect(() => {
    if (opens) void look();
  }, []);
  return (
    <div className="blob">
      {name !== undefined && <bdi>{name} </bdi>}
      <code className="wrap">{address}</code>{" "}
      {!opens && (
        <button type="button" className="link" onClick={look}>
          Show the beginning
        </button>
      )}{" "}
      <a href={blobPath(address)} download>
        Download
      </a>
      {problem !== undefined && <Problem error={problem} onRetry={look} />}
      {found !== undefined && "erased" in found && (
        <Erased by={found.erased.actor} why={found.erased.why} at={<Moment ns={found.erased.time_ns} />} />
      )}
      {found !== undefined && "head" in found && <HeadView head={found.head} label={`Beginning of ${name ?? address}`} />}
    </div>
  );
}

/** The beginning of text, with the size of the whole. Bytes that are no text are named, not shown. */
export function HeadView({ head, label }: { head: Head; label: string }) {
  const size = `${head.size.toLocaleString()} bytes`;
  const shown = head.shown;
  if (!head.type.startsWith("text/")) {
    return (
      <p className="faint">
        {size} of {head.type || "unknown type"}, not shown as text.
      </p>
    );
  }
  return (
    <>
      <pre className="head" dir="auto" tabIndex={0} role="group" aria-label={label}>
        <Verbatim text={head.text} />
      </pre>
      {shown < head.size ? <Cut shown={shown} whole={head.size} of="bytes" /> : <p className="faint">{size}.</p>}
    </>
  );
}
