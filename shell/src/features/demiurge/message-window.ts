/** The part of a long chat that is mounted: some turns in a row, at first the newest ones. */
import { useState } from "react";

/** So many turns are shown at most: 100 messages. */
export const TURNS = 50;
/** So many turns come and go at once. */
const STEP = 25;

export interface MessageWindow {
  /** The places of the turns that are shown: from `start` on, without `end`. */
  start: number;
  end: number;
  earlier: () => void;
  later: () => void;
  newest: () => void;
}

/** Returns the window over `count` turns. Until somebody moves it, it goes along with the newest turn. */
export function useMessageWindow(count: number): MessageWindow {
  const [chosen, setChosen] = useState<number | null>(null);
  const last = count <= TURNS ? 0 : Math.ceil((count - TURNS) / STEP) * STEP;
  const start = Math.min(chosen ?? last, last);
  const move = (to: number) => setChosen(to >= last ? null : Math.max(0, to));
  return {
    start,
    end: Math.min(count, start + TURNS),
    earlier: () => move(start - STEP),
    later: () => move(start + STEP),
    newest: () => setChosen(null),
  };
}
