/** The caller of this browser. */
import { createContext, useContext } from "react";
import type { Session } from "./sdk";

export const SessionContext = createContext<Session | null>(null);

/** Returns whether a caller is a person with every right: it names chats, and decides on tools and servers. */
export const isUser = ({ roles }: Session) => roles.includes("user");

/** Returns whether a caller may send messages, and read all records. */
export const maySend = ({ roles }: Session) => roles.includes("user") || roles.includes("agent");

/** Returns whether a caller may decide calls that wait. */
export const mayDecide = ({ roles }: Session) => roles.includes("user") || roles.includes("approver");

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("A component was shown without a session.");
  return session;
}
