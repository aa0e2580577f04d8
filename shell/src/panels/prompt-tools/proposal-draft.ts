/** What a person writes in the form of a proposal, and how it becomes the body that is sent. */
import type { PromptTool } from "../../sdk/prompt-tools";
import type { ProposalBody, ProposalCase, ToolProposal } from "../../sdk/review";

export type Limits = [fewest: number, most: number];

/** Of the server's checks, which decide. */
export const LIMITS: Record<string, Limits> = {
  id: [3, 48],
  name: [1, 80],
  usageNotes: [1, 500],
  goals: [0, 500],
  guardrails: [0, 1000],
  prompt: [1, 8000],
  rationale: [20, 2000],
  text: [1, 8000],
};
export const EXAMPLES: Limits = [2, 3];
export const CASES: Limits = [2, 10];
export const CASE_KINDS = ["example", "format", "evidence", "must_not"];

/** A test case as the form has it: lists are lines, and what has no field of its own is JSON. */
export interface CaseDraft {
  id: string;
  should: "pass" | "fail";
  kind: string;
  /** A person looks at it; else the reply is checked by itself. */
  isManual: boolean;
  check: string;
  reply: string;
  mustMatch: string;
  mustNotMatch: string;
  maxChars: string;
  jsonOnly: boolean;
  noFences: boolean;
  evidence: string;
  tool: string;
  /** Further expectations, such as `{"receipt": true}`. */
  more: string;
  given: string;
}

/** A draft of a proposal: its texts as in the body, its test cases in the form of the page. */
export interface Draft extends Omit<ProposalBody, "testCases"> {
  cases: CaseDraft[];
}

export interface FieldProblem {
  /** Such as `prompt` or `testCases[1].reply`. */
  field: string;
  problem: string;
}

const EMPTY_CASE: CaseDraft = {
  id: "",
  should: "pass",
  kind: "example",
  isManual: false,
  check: "",
  reply: "",
  mustMatch: "",
  mustNotMatch: "",
  maxChars: "",
  jsonOnly: false,
  noFences: false,
  evidence: "",
  tool: "",
  more: "",
  given: "",
};

/** Returns an empty test case with an id that no other has. */
export function newCase(cases: CaseDraft[], should: "pass" | "fail" = "pass"): CaseDraft {
  const taken = new Set(cases.map((each) => each.id));
  let number = cases.length + 1;
  while (taken.has(`case_${number}`)) number++;
  return { ...EMPTY_CASE, id: `case_${number}`, should };
}

export const newExample = () => ({ input: "", expected: "" });

export function emptyDraft(): Draft {
  const first = newCase([], "pass");
  return {
    id: "",
    name: "",
    archetype: "",
    scope: "",
    usageNotes: "",
    goals: "",
    guardrails: "",
    prompt: "",
    proposalType: "new",
    rationale: "",
    examples: [newExample(), newExample()],
    cases: [first, newCase([first], "fail")],
    target: "user",
  };
}

/** Returns a draft that begins with the text of a tool, and with the examples and test cases of `source`: the proposal
 * by which the tool was approved. */
export function draftOf(tool: PromptTool, act: "copy" | "change" | "delete", source: ProposalBody | null): Draft {
  const began = emptyDraft();
  const record = {
    id: tool.id,
    name: tool.name,
    archetype: tool.archetype,
    scope: tool.scope,
    usageNotes: tool.usageNotes,
    goals: tool.goals,
    guardrails: tool.guardrails,
    prompt: tool.prompt,
  };
  const tried = source !== null && source.examples.length > 0 ? { examples: source.examples, cases: source.testCases.map(caseDraft) } : {};
  if (act === "copy") return { ...began, ...record, ...tried };
  const change = { ...began, ...record, baseHash: tool.digest, target: tool.layer === "project" ? ("project" as const) : ("user" as const) };
  if (act === "delete") return { ...change, proposalType: "delete", examples: [], cases: [] };
  return { ...change, ...tried, proposalType: "modify" };
}

export function draftOfBody({ testCases, ...body }: ProposalBody): Draft {
  return { ...body, cases: testCases.map(caseDraft) };
}

/** Returns a draft of a proposal whose text was erased: what it is about is still known. */
export function erasedDraft({ tool, name, kind, target, base }: ToolProposal): Draft {
  return { ...emptyDraft(), id: tool, name, proposalType: kind, target, ...(base !== null ? { baseHash: base } : {}) };
}

const isLines = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === "string" && each !== "" && !each.includes("\n"));

function caseDraft(given: ProposalCase): CaseDraft {
  const draft: CaseDraft = { ...EMPTY_CASE, id: given.id, should: given.should, kind: given.kind ?? "example" };
  if (given.reply == null) return { ...draft, isManual: true, check: given.check ?? "" };
  draft.reply = given.reply;
  if (given.given != null) draft.given = JSON.stringify(given.given, null, 2);
  const more: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given.expect ?? {})) {
    if (name === "must_match" && isLines(value)) draft.mustMatch = value.join("\n");
    else if (name === "must_not_match" && isLines(value)) draft.mustNotMatch = value.join("\n");
    else if (name === "max_chars" && typeof value === "number") draft.maxChars = String(value);
    else if (name === "json_only" && value === true) draft.jsonOnly = true;
    else if (name === "no_fences" && value === true) draft.noFences = true;
    else if (name === "evidence" && (value === "required" || value === "forbidden")) draft.evidence = value;
    else if (name === "tool" && typeof value === "string" && value !== "") draft.tool = value;
    else more[name] = value;
  }
  if (Object.keys(more).length > 0) draft.more = JSON.stringify(more, null, 2);
  return draft;
}

const lines = (text: string) => text.split("\n").filter((line) => line !== "");

/** Returns the object of a JSON text, an empty one for no text; null if it is no object. */
function objectOf(text: string): Record<string, unknown> | null {
  if (text.trim() === "") return {};
  try {
    const found = JSON.parse(text);
    return typeof found === "object" && found !== null && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}

function caseBody(draft: CaseDraft): ProposalCase {
  const { id, should, kind } = draft;
  if (draft.isManual) return { id, should, kind, check: draft.check };
  const expect: Record<string, unknown> = { ...objectOf(draft.more) };
  if (draft.mustMatch !== "") expect.must_match = lines(draft.mustMatch);
  if (draft.mustNotMatch !== "") expect.must_not_match = lines(draft.mustNotMatch);
  if (draft.maxChars.trim() !== "") expect.max_chars = Number(draft.maxChars);
  if (draft.jsonOnly) expect.json_only = true;
  if (draft.noFences) expect.no_fences = true;
  if (draft.evidence !== "") expect.evidence = draft.evidence;
  if (draft.tool.trim() !== "") expect.tool = draft.tool.trim();
  const given = objectOf(draft.given) ?? {};
  return { id, should, kind, reply: draft.reply, expect, ...(Object.keys(given).length > 0 ? { given } : {}) };
}

/** Returns what is no JSON: the rest is the server's to judge. */
export function draftProblems(draft: Draft): FieldProblem[] {
  return draft.cases.flatMap((each, at) =>
    each.isManual
      ? []
      : (["more", "given"] as const)
          .filter((name) => objectOf(each[name]) === null)
          .map((name) => ({ field: `testCases[${at}].${name}`, problem: "is one JSON object, such as {\"receipt\": true}." })),
  );
}

export function bodyOf({ cases, ...draft }: Draft): ProposalBody {
  return { ...draft, testCases: cases.map(caseBody) };
}
