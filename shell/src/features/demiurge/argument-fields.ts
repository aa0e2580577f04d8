/** The fields of a form for the arguments of a call, from the schema of its tool. */
import { parseObject } from "../../parts/exact-json";

export interface ArgumentField {
  name: string;
  /** What is typed: a text as it is; a number; one of `choices`; anything else as JSON. */
  kind: "text" | "number" | "integer" | "choice" | "json";
  required: boolean;
  /** Whether the call has this argument. */
  given: boolean;
  /** What is in the field: a text as it is, every other value as JSON. */
  text: string;
  /** The values of a choice, as JSON. */
  choices: string[];
  about: string;
}

interface Property {
  type?: unknown;
  enum?: unknown;
  description?: unknown;
  default?: unknown;
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const INTEGER = /^-?(0|[1-9]\d*)$/;

/** Returns a field for each argument of the proposed call, and for each other one that the schema knows. */
export function fieldsOf(schema: Record<string, unknown>, proposedJson: string): ArgumentField[] {
  const proposed = new Map(Object.entries(parseObject(proposedJson) ?? {}));
  const properties = new Map(Object.entries((schema.properties ?? {}) as Record<string, Property>));
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  return [...new Set([...proposed.keys(), ...properties.keys()])].map((name) => {
    const property = properties.get(name) ?? {};
    const given = proposed.has(name);
    const value = given ? proposed.get(name) : property.default;
    const choices = choicesOf(property, value);
    const kind = choices.length > 0 ? "choice" : kindOf(property.type, value);
    const text = kind === "text" ? (typeof value === "string" ? value : "") : (JSON.stringify(value, null, 2) ?? choices[0] ?? "");
    const about = typeof property.description === "string" ? property.description : "";
    return { name, kind, required: required.has(name), given, text, choices, about };
  });
}

function choicesOf({ type, enum: values }: Property, value: unknown): string[] {
  const known = Array.isArray(values) ? values : type === "boolean" ? [true, false] : [];
  const found = known.map((each) => JSON.stringify(each));
  const now = JSON.stringify(value);
  return found.length === 0 || now === undefined || found.includes(now) ? found : [now, ...found];
}

function kindOf(type: unknown, value: unknown): ArgumentField["kind"] {
  if (type === "string" && (value === undefined || typeof value === "string")) return "text";
  const isNumber = value === undefined || INTEGER.test(JSON.stringify(value)) || NUMBER.test(JSON.stringify(value));
  return (type === "integer" || type === "number") && isNumber ? type : "json";
}

/** Returns why the value of a field can't be used; empty if it can. */
export function fieldProblem({ kind, given, text }: ArgumentField): string {
  if (!given) return "";
  if (kind === "number" && !NUMBER.test(text.trim())) return "This is not a number, such as 12 or 0.5.";
  if (kind === "integer" && !INTEGER.test(text.trim())) return "This is not a whole number, such as 12.";
  if (kind !== "json") return "";
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Returns the arguments that the fields hold, as JSON. No field may have a problem. */
export function argumentsJson(fields: ArgumentField[]): string {
  const given = fields.filter((field) => field.given);
  const parts = given.map(({ name, kind, text }) => `${JSON.stringify(name)}: ${kind === "text" ? JSON.stringify(text) : text.trim()}`);
  return `{${parts.join(", ")}}`;
}
