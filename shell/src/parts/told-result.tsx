/** What a model was told about a call, and the whole value of the tool, for whoever may see both. */
import type { ReactNode } from "react";
import { Verbatim } from "./verbatim";

interface ToldResultProps {
  content: string;
  value: unknown;
  /** What is said of a content, or of a value, that is not here in full; false for one that is. */
  cut: ReactNode;
  valueCut: ReactNode;
  /** Whether the texts are shown at first. */
  open?: boolean;
}

export function ToldResult({ content, value, cut, valueCut, open = false }: ToldResultProps) {
  const isValue = value != null && JSON.stringify(value) === content;
  return (
    <>
      {!isValue && (content !== "" || value == null) && <Part name="Result" line={content} text={content} open={open} />}
      {cut !== false && <p className="faint">{cut}</p>}
      {value != null && (
        <Part name={isValue ? "Result" : "Value"} line={JSON.stringify(value)} text={JSON.stringify(value, null, 2)} open={open} />
      )}
      {valueCut !== false && <p className="faint">{valueCut}</p>}
    </>
  );
}

interface PartProps {
  name: string;
  /** The text of which the summary has the beginning. */
  line: string;
  text: string;
  open: boolean;
}

function Part({ name, line, text, open }: PartProps) {
  return (
    <details open={open}>
      <summary>
        {name}{" "}
        <span className="preview" dir="auto">
          {firstLine(line)}
        </span>
      </summary>
      <pre dir="auto">
        <Verbatim text={text} />
      </pre>
    </details>
  );
}

const SUMMARY = 80;

/** Returns the first line of a text, short enough for a summary. */
function firstLine(text: string): string {
  const line = text.trimStart().split("\n", 1)[0]!;
  return line.length > SUMMARY ? `${line.slice(0, SUMMARY)}...` : line;
}
