/** The public images, sounds and files of a result, and how far a running call is. */
import type { Progress } from "../../live/stream";
import { blobPath } from "../../sdk";
import { sizeText } from "./attachments";

interface ResultPart {
  kind: "image" | "audio" | "file";
  mime: string;
  bytes_ref: string;
  size: number;
  name: string;
}

/** Returns the parts that a public view names. */
export function partsOf(view: unknown): ResultPart[] {
  const parts: unknown = typeof view === "object" && view !== null ? (view as Record<string, unknown>).parts : undefined;
  return Array.isArray(parts) ? parts.filter(isPart) : [];
}

function isPart(part: unknown): part is ResultPart {
  const { kind, bytes_ref } = (part ?? {}) as Partial<ResultPart>;
  return ["image", "audio", "file"].includes(String(kind)) && /^sha256:[0-9a-f]{64}$/.test(String(bytes_ref));
}

export function ResultParts({ view }: { view: unknown }) {
  return partsOf(view).map((part) => <Part key={part.bytes_ref} {...part} />);
}

function Part({ kind, mime, bytes_ref, size, name }: ResultPart) {
  const path = blobPath(bytes_ref);
  if (kind === "image") {
    return (
      <a href={path} target="_blank" rel="noreferrer">
        <img className="attached" src={path} alt={name === "" ? "Image of the result" : name} loading="lazy" />
      </a>
    );
  }
  if (kind === "audio") {
    return <audio controls preload="metadata" src={path} aria-label={name === "" ? "Sound of the result" : name} />;
  }
  return (
    <a className="wrap" href={`${path}?name=${encodeURIComponent(name)}`} download={name}>
      Download <bdi>{name === "" ? mime : name}</bdi> ({sizeText(size)})
    </a>
  );
}

export function CallProgress({ done, total, message }: Progress) {
  const numbers = total === null ? `${done}` : `${done} of ${total}`;
  return (
    <p className="call-progress">
      {total !== null && <progress max={Math.max(total, done, 1)} value={done} aria-label="Progress" />}
      <span>{numbers}</span>
      {message !== "" && <bdi className="wrap">{message}</bdi>}
    </p>
  );
}
