/** The words of the review, the addresses of its pages, and what a role may do. The server decides what it takes: the
 * page only leaves out what it would refuse, and says why. */
import type { Session } from "../../sdk";
import type { Issue, IssueAction, ProposalState, ToolProposal } from "../../sdk/review";
import { isUser } from "../../session";

export const PROPOSALS = "/prompt-tools/proposals";
export const ISSUES = "/prompt-tools/issues";

export const proposalHref = (id: string) => `${PROPOSALS}/${encodeURIComponent(id)}`;
export const issueHref = (id: string) => `${ISSUES}/${encodeURIComponent(id)}`;

/** Returns an address with the parameters that are not empty. */
export function withQuery(path: string, query: Record<string, string>): string {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  return given.size === 0 ? path : `${path}?${given}`;
}

/** The id that follows `base` in a path; null on the page of the list. */
export function idIn(path: string, base: string): string | null {
  return path.startsWith(`${base}/`) ? decodeURIComponent(path.slice(base.length + 1)) : null;
}

export const STATES: Record<ProposalState, string> = {
  chief_review: "waits for the Chief",
  user_decision: "waits for a user",
  returned: "returned to its author",
  approving: "being put into the catalog",
  approved: "approved",
  rejected: "rejected",
  withdrawn: "withdrawn",
  stale: "stale",
};

/** The class that colours a state. */
export const TONES: Record<ProposalState, string> = {
  chief_review: "awaiting_approval",
  user_decision: "awaiting_approval",
  returned: "awaiting_approval",
  approving: "running",
  approved: "done",
  rejected: "failed",
  withdrawn: "",
  stale: "failed",
};

export const KINDS = { new: "new tool", modify: "change", delete: "deletion" };

export const ACTIONS: Record<IssueAction, string> = { approve: "Approve", needs_changes: "Needs changes", reject: "Reject" };

export const DECIDED: Record<string, string> = {
  approve: "Approved by",
  needs_changes: "Returned by",
  reject: "Rejected by",
  withdraw: "Withdrawn by",
};

export const ISSUE_STATES: Record<Issue["status"], string> = { open: "open", "waiting-on-user": "waits for a user", closed: "closed" };
export const ISSUE_TONES: Record<Issue["status"], string> = { open: "running", "waiting-on-user": "awaiting_approval", closed: "" };

const OPEN: ProposalState[] = ["chief_review", "user_decision", "returned"];

export const isChief = ({ roles }: Session) => roles.includes("chief");
export const mayRunChecks = ({ roles }: Session) => roles.some((role) => ["agent", "chief", "user"].includes(role));
/** Whether a caller may read proposals and issues. */
export const mayRead = ({ roles }: Session) => roles.some((role) => role !== "viewer");

/** Whether a caller may open issues and comment on them. */
export const mayWriteIssues = mayRead;

export const isOpen = ({ state }: ToolProposal) => OPEN.includes(state);
export const isAuthor = (session: Session, { submitted_by }: ToolProposal) => session.actor === submitted_by;

/** Whether a proposal waits for this caller: for their review, their decision, or their revision. */
export function waitsFor(session: Session, proposal: ToolProposal): boolean {
  if (proposal.state === "chief_review") return isChief(session);
  if (proposal.state === "user_decision") return isUser(session);
  return proposal.state === "returned" && isAuthor(session, proposal);
}

const PROPOSAL_UNITS = "sys/ToolProposal@1/";
const REGISTRY_UNITS = "sys/ToolRegistry@1";
const ISSUE_UNITS = "sys/Issue@1/";

export const proposalUnit = (id: string) => `${PROPOSAL_UNITS}${id}`;
export const modelRunUnit = (id: string) => `sys/ModelRun@1/${id}`;
export const issueUnit = (id: string) => `${ISSUE_UNITS}${id}`;
/** Whether a record changes a list of proposals: their states, or which of them are stale. */
export const isOfProposals = ({ unit }: { unit: string }) => unit.startsWith(PROPOSAL_UNITS) || unit.startsWith(REGISTRY_UNITS);
export const isOfRegistry = ({ unit }: { unit: string }) => unit.startsWith(REGISTRY_UNITS);
export const isOfIssues = ({ unit }: { unit: string }) => unit.startsWith(ISSUE_UNITS);
