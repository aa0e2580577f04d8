/** The states of calls in words: as `demiurge.world.history.call_state` names them, and says them at the terminal. */

/** Returns a state in words. `by`: the person who decided, if one did. */
export function stateText(state: string, by?: string | null): string {
  if (state === "awaiting_approval" || state === "waiting") return "waits for a person";
  const words = state === "ok" ? "done" : state.replaceAll("_", " ");
  return by ? `${words} by ${by}` : words;
}

/** The states of calls that ran, so that the time they took says something. */
const RAN = new Set(["ok", "done", "failed", "unknown_outcome", "running"]);

export const hasRun = (state: string) => RAN.has(state);
