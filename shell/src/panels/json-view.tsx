/** Data as JSON text, cut at a length that a page can show, and the beginning of a blob. */
import { useState } from "react";
import { Verbatim } from "../parts/verbatim";
import { blobPath } from "../sdk";

const LONGEST = 50_000;
const HEAD_BYTES = 4096;

export function JsonView({ value, label }: { value: unknown; label: string }) {
  const text = JSON.stringify(value, null, 2) ?? "null";
  return (
    <div className="json" tabIndex={0} role="group" aria-label={label}>
      <pre dir="ltr">
        <Verbatim text={text.slice(0, LONGEST)} />
      </pre>
      {text.length > LONGEST && (
        <p className="faint">
          Cut: the first {LONGEST.toLocaleString()} of {text.length.toLocaleString()} characters.
        </p>
      )}
    </div>
  );
}

/** A blob by its address: the first bytes on demand, and the whole as a download. */
export function BlobHead({ address }: { address: string }) {
  const [head, setHead] = useState<{ text: string; size: string }>();
  const [problem, setProblem] = useState("");
  const look = async () => {
    setProblem("");
    try {
      const answer = await fetch(blobPath(address), { headers: { range: `bytes=0-${HEAD_BYTES - 1}` } });
      if (!answer.ok) throw new Error((await answer.json()).message);
      const size = answer.headers.get("content-range")?.split("/")[1] ?? answer.headers.get("content-length") ?? "?";
      setHead({ text: await answer.text(), size });
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <div className="blob">
      <code className="wrap">{address.slice(0, 19)}…</code>{" "}
      <button type="button" className="link" onClick={look}>
        Show the beginning
      </button>{" "}
      <a href={blobPath(address)} download>
        Download
      </a>
      {problem !== "" && <p role="alert" className="problem">{problem}</p>}
      {head !== undefined && (
        <>
          <pre dir="auto">
            <Verbatim text={head.text} />
          </pre>
          <p className="faint">
            {Number(head.size) > HEAD_BYTES ? `The first ${HEAD_BYTES} of ${head.size} bytes.` : `${head.size} bytes.`}
          </p>
        </>
      )}
    </div>
  );
}
