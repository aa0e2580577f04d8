/** Proposals of prompt tools and the issues of a world: what the server answers, and the paths as functions. */
import { get, post, put } from "./client";

export type ProposalState =
  | "chief_review"
  | "user_decision"
  | "approving"
  | "returned"
  | "approved"
  | "rejected"
  | "withdrawn"
  | "stale";

export interface Finding {
  code: string;
  /** The field that it is about, such as `prompt` or `testCases[1].reply`. */
  field: string;
  /** Places in the field in characters (code points). */
  start: number;
  end: number;
  severity: "block" | "warn";
  message: string;
}

export interface ProposalCase {
  id: string;
  should: "pass" | "fail";
  kind?: string;
  given?: Record<string, unknown> | null;
  reply?: string | null;
  expect?: Record<string, unknown> | null;
  check?: string | null;
}

/** A proposal as a file holds it. */
export interface ProposalBody {
  id: string;
  name: string;
  archetype: string;
  scope: string;
  usageNotes: string;
  goals: string;
  guardrails: string;
  prompt: string;
  proposalType: "new" | "modify" | "delete";
  rationale: string;
  examples: { input: string; expected: string }[];
  testCases: ProposalCase[];
  target: "user" | "project";
  baseHash?: string;
}

export interface CheckReport {
  digest: string;
  passed: boolean;
  static: Finding[];
  platform: { id: string; says: string; passed: boolean; problem: string }[];
  cases: { id: string; should: string; right: boolean | null; manual: boolean; broken: string[] }[];
}

export interface Review {
  digest: string;
  by: string;
  /** `user`: there is no Chief of Staff, so a user acts as both. */
  kind: "chief" | "model" | "user";
  recommend: "approve" | "modify" | "reject" | "";
  sensible: string;
  overlaps: string;
  violates: string;
  changes: string;
  notes: string;
  model: string | null;
  at_ms: number;
}

export interface CaseVerdict {
  digest: string;
  case: string;
  passed: boolean;
  note: string;
  by: string;
  at_ms: number;
}

/** A request to a model about a proposal, such as for a review. */
export interface ModelRun {
  digest: string;
  provider: string;
  model: string;
  by: string;
  status: "running" | "done" | "failed";
  /** Of a run that failed. */
  code: string | null;
  message: string | null;
  requests: number;
  tokens: number;
  /** Null if nobody knows what an answer cost. */
  cost_micros: number | null;
  /** The test cases that a run of `cases` tries, and what came of those that were tried. */
  cases: string[];
  results: { case: string; right: boolean; broken: string[]; reply: string }[];
  at_ms: number;
  ended_at_ms: number | null;
}

export interface ToolProposal {
  id: string;
  state: ProposalState;
  kind: "new" | "modify" | "delete";
  tool: string;
  name: string;
  target: "user" | "project";
  base: string | null;
  digest: string;
  revision: number;
  /** Null in a list. */
  body: ProposalBody | null;
  submitted_by: string;
  submitted_at_ms: number;
  updated_at_ms: number;
  is_stale: boolean;
  live_digest: string | null;
  checks: { digest: string; passed: boolean; report: CheckReport | null; error: string | null; at_ms: number } | null;
  review: Review | null;
  verdicts: CaseVerdict[];
  /** What it lacks before a user may approve it, as sentences. */
  missing: string[];
  /** The Chiefs of Staff of the world now; a model as `model:PROVIDER/MODEL`. Without one a user acts as both. */
  chiefs: string[];
  decision: { by: string; verdict: string; reason: string; read: boolean; at_ms: number; digest: string } | null;
  outcome: { code: string; message: string } | null;
  review_issue: string;
  decision_issue: string;
  version: number | null;
  /** The last run of each kind. */
  model_runs: { review?: ModelRun; cases?: ModelRun };
}

export interface DiffSide {
  line: number;
  spans: { text: string; changed: boolean }[];
}

export type DiffRow =
  | { kind: "gap"; lines: number }
  | { kind: "same" | "changed" | "removed" | "added"; old: DiffSide | null; new: DiffSide | null };

export interface FieldDifference {
  field: string;
  old: string | null;
  new: string | null;
  rows: DiffRow[];
}

export type IssueAction = "approve" | "needs_changes" | "reject";

export interface Issue {
  id: string;
  title: string;
  /** Markdown; empty in a list, as `comments`; null after an erasure. */
  body: string | null;
  status: "open" | "waiting-on-user" | "closed";
  priority: "low" | "normal" | "high" | "urgent";
  assignee: string;
  opened_by: string;
  tags: string[];
  created_at_ms: number;
  updated_at_ms: number;
  closed_at_ms: number | null;
  comments: { by: string; at_ms: number; body: string; action: string | null }[];
  comment_count: number;
  /** What a user may decide by it. */
  actions: IssueAction[];
  proposal: string | null;
  digest: string | null;
}

export interface ChiefAnswers {
  recommend: string;
  sensible: string;
  overlaps: string;
  violates: string;
  changes: string;
  notes: string;
}

const part = encodeURIComponent;
const proposals = (id: string, what = "") => `/api/proposals/${part(id)}${what}`;
const issues = (id: string, what = "") => `/api/issues/${part(id)}${what}`;

export interface ProposalQuery {
  state?: string;
  tool?: string;
  after?: string;
  limit?: number;
}
export const proposalsGet = (query: ProposalQuery = {}) =>
  get<{ proposals: ToolProposal[]; next: string | null }>("/api/proposals", { ...query });
export const proposalGet = (id: string) => get<ToolProposal>(proposals(id));
export const proposalPost = (body: ProposalBody) => post<ToolProposal>("/api/proposals", body);
/** Replaces the body of a proposal. */
export const proposalPut = (id: string, body: ProposalBody) => put<ToolProposal>(proposals(id), body);
export const proposalDiff = (id: string) => get<{ fields: FieldDifference[] }>(proposals(id, "/diff"));
export const reviewPost = (id: string, digest: string, answers: ChiefAnswers) =>
  post<ToolProposal>(proposals(id, "/review"), { digest, ...answers });
export const skipReviewPost = (id: string, digest: string, reason: string) =>
  post<ToolProposal>(proposals(id, "/skip-review"), { digest, reason });
/** Asks a model for a review, and answers once it has given one. `model`: the one of the world by default. */
export const askModelPost = (id: string, digest: string, model?: string) =>
  post<ToolProposal>(proposals(id, "/ask-model"), { digest, model });
/** Tries the automatic test cases on a model, and answers once all have run. */
export const tryCasesPost = (id: string, digest: string, model?: string) =>
  post<ToolProposal>(proposals(id, "/advisory-run"), { digest, model });
export const verdictPost = (id: string, digest: string, given: { case: string; passed: boolean; note: string }) =>
  post<ToolProposal>(proposals(id, "/verdicts"), { digest, ...given });
export const checksPost = (id: string) => post<ToolProposal>(proposals(id, "/checks"), {});

const DECISIONS: Record<IssueAction | "withdraw", string> = {
  approve: "/approve",
  needs_changes: "/needs-changes",
  reject: "/reject",
  withdraw: "/withdraw",
};
/** Decides on the proposal that has this digest. An approval says that its text was read. */
export const decisionPost = (id: string, action: IssueAction | "withdraw", digest: string, reason: string, read: boolean) =>
  post<ToolProposal>(proposals(id, DECISIONS[action]), action === "approve" ? { digest, reason, read } : { digest, reason });

export interface IssueQuery {
  status?: string;
  assignee?: string;
  tag?: string;
  after?: string;
  limit?: number;
}
export const issuesGet = (query: IssueQuery = {}) =>
  get<{ issues: Issue[]; next: string | null }>("/api/issues", { ...query });
export const issueGet = (id: string) => get<Issue>(issues(id));
export const issuePost = (given: { title: string; body: string; assignee: string; tags: string[]; priority: string }) =>
  post<Issue>("/api/issues", given);
export const commentPost = (id: string, body: string) => post<Issue>(issues(id, "/comments"), { body });
export const actionPost = (id: string, action: IssueAction, digest: string, reason: string, read: boolean) =>
  post<Issue>(issues(id, "/actions"), { action, digest, reason, read });
/** The reason becomes a comment. */
export const issueClose = (id: string, reason: string) => post<Issue>(issues(id, "/close"), { reason });
export const issueReopen = (id: string, reason: string) => post<Issue>(issues(id, "/reopen"), { reason });
