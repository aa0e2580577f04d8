/** Text exactly as it is: characters that cannot be seen, or that turn the direction of text, are shown by number. */
import type { ReactNode } from "react";

// Control characters but tab and newline; soft hyphen; zero-width, bidi and other format characters; tags.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Returns whether a text has characters that `Verbatim` shows by number. */
export function hasHidden(text: string): boolean {
  return text.search(HIDDEN) >= 0;
}

export function Verbatim({ text }: { text: string }) {
  const shown: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > end) shown.push(text.slice(end, match.index));
    const number = match[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
    shown.push(
      <span className="hidden-character" key={match.index} title="A character that cannot be seen">
        U+{number}
      </span>,
    );
    end = match.index + match[0].length;
  }
  shown.push(text.slice(end));
  return <>{shown}</>;
}
