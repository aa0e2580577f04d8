/** Standing rules: what a pattern lets through, in the words and by the rules of the server. */
import { parseObject } from "../../parts/exact-json";
import type { ArgumentForm } from "../../sdk";

export const HOURS: [number, string][] = [
  [1, "1 hour"],
  [8, "8 hours"],
  [24, "1 day"],
  [7 * 24, "7 days"],
  [30 * 24, "30 days"],
];
export const MAX_CALLS = 1000;

/** Returns whether a text is like `notes/*`: `*` stands for any characters but slashes, and no part of a path is `..`. */
export function isLike(like: string, value: string): boolean {
  if (value.split(/[/\\]/).includes("..")) return false;
  const wanted = like.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${wanted.join("[^/\\\\]*")}$`, "su").test(value);
}

/** Returns the forms of a pattern, by the name of the argument. */
export function formsOf(patternJson: string): [string, ArgumentForm][] {
  return Object.entries(parseObject(patternJson) ?? {}) as [string, ArgumentForm][];
}
