/** What the parts of an open chat share. */
import { createContext, useContext } from "react";
import type { Approval, ChatMessage, MessageTerms, NewAttachment, ToolView, Turn, TurnFailure } from "../../sdk";
import type { CallTime } from "./chat-data";
import type { MessageWindow } from "./message-window";

export interface OpenChat {
  chatId: string;
  /** Whether this page made the chat just now. */
  isNew: boolean;
  turn: Turn | undefined;
  /** Why turns failed, by request id. */
  failures: Map<number, TurnFailure>;
  approvals: Approval[];
  tools: Map<string, ToolView>;
  times: Map<string, CallTime>;
  /** What a person said in a turn, if it is shown. */
  userMessage: (request: number) => ChatMessage | undefined;
  /** Why the last message or stop was not taken; empty if it was. */
  problem: string;
  /** Returns whether the message was taken. */
  send: (text: string, attachments: NewAttachment[], terms?: MessageTerms) => Promise<boolean>;
  cancel: () => Promise<void>;
  /** The number of turns of the chat, and those of them that are shown. */
  turns: number;
  shown: MessageWindow;
}

export const ChatContext = createContext<OpenChat | null>(null);

export function useChat(): OpenChat {
  const chat = useContext(ChatContext);
  if (chat === null) throw new Error("A component was shown outside of a chat.");
  return chat;
}
