/** Words that somebody else chose, where a person decides: a caller, a chat, a reason. As `visible_name` of the server
 * shows them: nothing in them is hidden, and they are short until somebody asks for the whole. */
import { useState } from "react";
import { spellHidden, Verbatim } from "./verbatim";

/** The most characters that are shown of a name, as at the terminal. */
const LONGEST = 120;

/** `inButton`: the name stands in a button or a link, which leads to the whole; here it is only a hint. */
export function Name({ text, inButton = false }: { text: string; inButton?: boolean }) {
  const [isWhole, setIsWhole] = useState(false);
  const letters = [...text];
  if (isWhole || letters.length <= LONGEST) {
    return (
      <bdi className="wrap">
        <Verbatim text={text} />
      </bdi>
    );
  }
  const size = `${letters.length.toLocaleString("en")} characters`;
  return (
    <bdi title={inButton ? spellHidden(text) : undefined}>
      <Verbatim text={letters.slice(0, LONGEST).join("")} />…{" "}
      {inButton ? (
        `(${size})`
      ) : (
        <button type="button" className="link" onClick={() => setIsWhole(true)}>
          Show all {size}
        </button>
      )}
    </bdi>
  );
}
