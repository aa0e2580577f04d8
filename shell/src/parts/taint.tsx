/** Untrusted text that a turn has read, in words. */
import { Verbatim } from "./verbatim";

/** Names the untrusted tools whose text a turn has read: "text from page, which is not trusted". */
export function UntrustedText({ tools }: { tools: string[] }) {
  return (
    <>
      text from{" "}
      {tools.map((tool, place) => (
        <span key={tool}>
          {place === 0 ? "" : place === tools.length - 1 ? " and " : ", "}
          <code>
            <Verbatim text={tool} />
          </code>
        </span>
      ))}
      , which {tools.length === 1 ? "is" : "are"} not trusted
    </>
  );
}

/** The mark of a call that was decided in a turn that had read untrusted text. */
export function TaintTag({ tools }: { tools: string[] | undefined }) {
  if (tools === undefined || tools.length === 0) return null;
  return (
    <span className="tag taint" title={`The turn had read text from ${tools.join(", ")}, which is not trusted.`}>
      after untrusted text
    </span>
  );
}
