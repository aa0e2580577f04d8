/** Markdown of an issue or a comment, drawn as an answer in a chat is: HTML shows as text, and no picture is fetched. */
import { TextMessagePartProvider } from "@assistant-ui/react";
import { useEffect } from "react";
import Markdown from "../../features/demiurge/markdown";
import { spellHidden } from "../../parts/verbatim";

interface IssueTextProps {
  text: string;
  /** Called once the text is in the page. */
  onDrawn?: () => void;
}

export default function IssueText({ text, onDrawn }: IssueTextProps) {
  useEffect(() => onDrawn?.(), [text]);
  return (
    <div className="markdown" dir="auto">
      <TextMessagePartProvider text={spellHidden(text)}>
        <Markdown />
      </TextMessagePartProvider>
    </div>
  );
}
