/** Whether the screen is narrow, as the style sheets see it. */
import { useSyncExternalStore } from "react";

const NARROW = window.matchMedia("(max-width: 640px)");

function subscribe(tell: () => void): () => void {
  NARROW.addEventListener("change", tell);
  return () => NARROW.removeEventListener("change", tell);
}

export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => NARROW.matches);
}
