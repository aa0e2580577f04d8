/** The three marks of what is not shown whole: cut, redacted, erased. Each says what is missing, and never looks like data. */
import type { ReactNode } from "react";
import { Verbatim } from "./verbatim";

export function Cut({ shown, whole, of }: { shown: number; whole: number; of: "bytes" | "characters" }) {
  return (
    <p className="mark">
      <strong>Cut</strong>: the first {shown.toLocaleString()} of {whole.toLocaleString()} {of}.
    </p>
  );
}

/** `names` are the fields that this caller may not see; the whole record if there are none. */
export function Redacted({ names }: { names: string[] }) {
  return (
    <p className="mark">
      <strong>Redacted</strong>: your role does not see{" "}
      {names.length === 0
        ? "what this record holds"
        : names.map((name, place) => (
            <span key={name}>
              {place > 0 && ", "}
              <code>{name}</code>
            </span>
          ))}
      .
    </p>
  );
}

export function Erased({ by, why, at }: { by: string; why: string; at: ReactNode }) {
  return (
    <p className="mark">
      <strong>Erased</strong> by <bdi>{by || "somebody"}</bdi> {at}: {why === "" ? "no reason is recorded" : <q dir="auto"><Verbatim text={why} /></q>}.
    </p>
  );
}

const WITHHELD = /\{\s*"\$withheld": true\s*\}/g;

/** JSON text in which the places of withheld values are marked. */
export function MarkedJson({ text }: { text: string }) {
  const parts = text.split(WITHHELD);
  return (
    <>
      {parts.map((part, place) => (
        <span key={place}>
          {place > 0 && <span className="redacted-value">redacted</span>}
          <Verbatim text={part} />
        </span>
      ))}
    </>
  );
}

/** Returns the names of the fields that are withheld in `value`, such as `params.api_key`. */
export function withheldNames(value: unknown, name = ""): string[] {
  if (typeof value !== "object" || value === null) return [];
  if (Object.keys(value).length === 1 && "$withheld" in value) return name === "" ? [] : [name];
  return Object.entries(value).flatMap(([key, held]) => withheldNames(held, name === "" ? key : `${name}.${key}`));
}
