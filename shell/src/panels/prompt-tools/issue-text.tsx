/** Markdown of an issue or a comment, drawn as an answer in a chat is: HTML shows as text, and no picture is fetched. */
import { TextMessagePartProvider } from "@assistant-ui/react";
import { type ComponentProps, useEffect } from "react";
import Markdown from "../../features/demiurge/markdown";
import { spellHidden } from "../../parts/verbatim";

interface IssueTextProps {
  text: string;
  /** The level of all headings in the text: its author does not know the headings around it. */
  level: 3 | 4;
  /** Called once the text is in the page. */
  onDrawn?: () => void;
}

const NAMES = ["h1", "h2", "h3", "h4", "h5", "h6"] as const;

function headings(level: 3 | 4) {
  const Heading = `h${level}` as const;
  const drawn = NAMES.map((name) => [
    name,
    ({ node: _node, ...rest }: ComponentProps<"h3"> & { node?: unknown }) => <Heading {...rest} className={`text-${name}`} />,
  ]);
  return Object.fromEntries(drawn);
}

const HEADINGS = { 3: headings(3), 4: headings(4) };

export default function IssueText({ text, level, onDrawn }: IssueTextProps) {
  useEffect(() => onDrawn?.(), [text]);
  return (
    <div className="markdown" dir="auto">
      <TextMessagePartProvider text={spellHidden(text)}>
        <Markdown components={HEADINGS[level]} />
      </TextMessagePartProvider>
    </div>
  );
}
