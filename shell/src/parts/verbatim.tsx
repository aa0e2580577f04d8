/** Text exactly as it is: characters that cannot be seen, or that turn the direction of text, are shown by number. */
import type { ReactNode } from "react";

// What `hidden_text.py` of the server names but for the two selectors of emoji: control characters but tab and newline;
// fillers, zero-width, bidi and other format characters; variation selectors; surrogates, private characters and tags.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{10ffff}]/gu;

/** Returns whether a text has characters that `Verbatim` shows by number. */
export function hasHidden(text: string): boolean {
  return text.search(HIDDEN) >= 0;
}

/** Returns a text in which such characters are spelled out, for a place where only plain text can stand. */
export function spellHidden(text: string): string {
  return text.replace(HIDDEN, (letter) => `[${numberOf(letter)}]`);
}

const numberOf = (letter: string) => `U+${letter.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;

export function Verbatim({ text }: { text: string }) {
  const shown: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > end) shown.push(text.slice(end, match.index));
    shown.push(
      <span className="hidden-character" key={match.index} title="A character that cannot be seen">
        {numberOf(match[0])}
      </span>,
    );
    end = match.index + match[0].length;
  }
  shown.push(text.slice(end));
  return <>{shown}</>;
}
