/** What the parts of an open chat share. */
import { createContext, useContext } from "react";
import type { Approval, ToolView, Turn } from "../../sdk";
import type { CallTime } from "./chat-data";

export interface OpenChat {
  chatId: string;
  turn: Turn | undefined;
  approvals: Approval[];
  tools: Map<string, ToolView>;
  times: Map<string, CallTime>;
  userTexts: Map<number, string>;
  /** Why the last message or stop was not taken; empty if it was. */
  problem: string;
  send: (text: string) => Promise<void>;
}

export const ChatContext = createContext<OpenChat | null>(null);

export function useChat(): OpenChat {
  const chat = useContext(ChatContext);
  if (chat === null) throw new Error("A component was shown outside of a chat.");
  return chat;
}
