/** The keys of lists: arrows, Home and End move the focus between the items, Enter opens one, as a click does. */
import type { KeyboardEvent } from "react";

/** Returns the place to go to for a key, or null for a key that does not move. */
export function placeForKey(key: string, place: number, count: number, page = 10): number | null {
  const to: Record<string, number> = {
    ArrowUp: place - 1,
    ArrowDown: place + 1,
    PageUp: place - page,
    PageDown: place + page,
    Home: 0,
    End: count - 1,
  };
  return to[key] === undefined ? null : Math.min(Math.max(to[key], 0), count - 1);
}

/** For a list whose items are all mounted: each has an element with `data-item` that takes the focus. */
export function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, pre, [role=group]") !== null) return;
  const items = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-item]")].filter((each) => each.checkVisibility());
  const current = items.findIndex((each) => each === target);
  if (current < 0) return;
  const to = placeForKey(event.key, current, items.length);
  if (to === null) return;
  event.preventDefault();
  items[to]?.focus();
}
