/** The title of the page, as tabs and the history of a browser show it: what is open, its panel, and the program. */
import { useEffect } from "react";

const parts = { subject: "", panel: "" };

function useTitlePart(part: keyof typeof parts, text: string): void {
  useEffect(() => {
    parts[part] = text;
    show();
    return () => {
      parts[part] = "";
      show();
    };
  }, [part, text]);
}

function show(): void {
  document.title = [parts.subject, parts.panel, "Demiurge"].filter((each) => each !== "").join(" · ");
}

export const usePanelTitle = (label: string) => useTitlePart("panel", label);

/** Names what a panel shows: a chat, a server, a tool. */
export const useSubject = (name: string) => useTitlePart("subject", name);
