/** JSON that is read without loss: a number that JavaScript would round keeps its digits. */
interface ExactJson {
  rawJSON?: (text: string) => unknown;
  isRawJSON?: (value: unknown) => boolean;
}
type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

const exact = JSON as unknown as ExactJson;

/** Returns the value of a JSON text. `JSON.stringify` writes its numbers as they were. Raises SyntaxError. */
export function parseExact(text: string): unknown {
  const keep: Reviver = (_key, value, context) =>
    typeof value === "number" && context?.source !== undefined && context.source !== String(value)
      ? (exact.rawJSON?.(context.source) ?? value)
      : value;
  return JSON.parse(text, keep);
}

/** Returns the object of a JSON text; null for any other text. */
export function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value = parseExact(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) && !isNumber(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

function isNumber(value: unknown): boolean {
  return typeof value === "number" || exact.isRawJSON?.(value) === true;
}

export function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (isNumber(value)) return "number";
  return Array.isArray(value) ? "list" : typeof value === "object" ? "object" : typeof value;
}
