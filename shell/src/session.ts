/** The caller of this browser. */
import { createContext, useContext } from "react";
import type { Session } from "./sdk";

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("A component was shown without a session.");
  return session;
}
