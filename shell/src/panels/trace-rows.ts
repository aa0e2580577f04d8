/** The rows of a causal tree: which records have one, how deep it is, which are folded, and which are one group. */
import type { TraceNode } from "../sdk";

/** So many equal siblings become one row. */
const GROUP_FROM = 5;
/** Trees with more rows begin with their finished good branches folded. */
const FOLD_FROM = 50;

const BAD = new Set(["failed", "denied", "rejected", "expired", "stopped", "unknown_outcome"]);
/** What a record below a call says of how the call ended. */
const ENDS = new Set([...BAD, "changed", "answered"]);
const OPEN = new Set(["awaiting_approval", "running", "waiting"]);

/** A step of the tree: a call with what it led to, or another record that is shown. */
export interface Step {
  id: string;
  node: TraceNode;
  name: string;
  /** How it ended or what it waits for, as the records say that belong to it. */
  state: string;
  why: string | null;
  /** The person whose decision the state is. */
  by: string | null;
  level: number;
  parent: Step | null;
  children: Step[];
  /** Whether something below it, or itself, failed or has not ended. */
  needsAttention: boolean;
}

/** A row: one step, or a group of equal siblings. */
export interface Row {
  id: string;
  step: Step;
  members: Step[];
  level: number;
  canFold: boolean;
  isFolded: boolean;
}

export const idOf = (node: { unit: string; seq: number }) => `${node.unit} ${node.seq}`;
export const isBad = ({ state }: { state: string | null }) => BAD.has(state ?? "");

/** Returns the steps of a tree in order. A receipt or an approval belongs to the step of its call, unless `everything`. */
export function stepsOf(nodes: TraceNode[], everything: boolean): Step[] {
  const steps: Step[] = [];
  const above: (Step & { depth: number })[] = [];
  nodes.forEach((node, place) => {
    const isStep = everything || place === 0 || node.kind === "intent" || (isBad(node) && !["approval", "receipt", "decision"].includes(node.kind));
    while (above.length > 0 && above.at(-1)!.depth >= node.depth) above.pop();
    const parent = above.at(-1) ?? null;
    const attention = isBad(node) || OPEN.has(node.state ?? "");
    if (attention) for (let each: Step | null = parent; each !== null && !each.needsAttention; each = each.parent) each.needsAttention = true;
    if (!isStep) {
      const isOpen = parent?.state === "" || parent?.state === "answered"; // a call that was answered may fail later
      if (ENDS.has(node.state ?? "") && isOpen) Object.assign(parent!, { state: node.state, why: node.why, by: node.by });
      return;
    }
    const name = node.says === "" ? node.kind : node.says.replace(/ \(by [^()]*\)$/, "");
    const level = parent === null ? 0 : parent.level + 1;
    const step = { id: idOf(node), node, name, state: node.state ?? "", why: node.why, by: node.by, level, parent, children: [], needsAttention: attention, depth: node.depth };
    parent?.children.push(step);
    steps.push(step);
    above.push(step);
  });
  return steps;
}

/** Returns the steps that are folded at first: in a long tree the good branches that have ended. */
export function foldedAtFirst(steps: Step[]): Set<string> {
  if (steps.length < FOLD_FROM) return new Set();
  return new Set(steps.filter((step) => step.level > 0 && step.children.length > 0 && !step.needsAttention).map((step) => step.id));
}

/** Returns the groups of equal siblings by the id of their first member: leaves with one name that ended well. */
function groupsOf(siblings: Step[]): Map<string, Step[]> {
  const groups = new Map<string, Step[]>();
  let run: Step[] = [];
  const end = () => {
    if (run.length >= GROUP_FROM) for (const each of run) groups.set(each.id, run);
    run = [];
  };
  for (const step of siblings) {
    const fits = step.children.length === 0 && !step.needsAttention;
    if (!fits || run[0]?.name !== step.name) end();
    if (fits) run.push(step);
  }
  end();
  return groups;
}

export const groupId = (members: Step[]) => `group ${members[0]!.id}`;

/** Returns the rows to show. `open` names the groups that are taken apart, `folded` the steps that hide what is below. */
export function rowsOf(root: Step, folded: Set<string>, open: Set<string>): Row[] {
  const rows: Row[] = [];
  const waiting: { step: Step; extra: number; group?: Step[] }[] = [{ step: root, extra: 0 }];
  while (waiting.length > 0) {
    const { step, extra, group } = waiting.pop()!;
    const level = step.level + extra;
    if (group !== undefined) {
      const id = groupId(group);
      const isFolded = !open.has(id);
      rows.push({ id, step, members: group, level, canFold: true, isFolded });
      if (!isFolded) for (const each of group) rows.push({ id: each.id, step: each, members: [each], level: level + 1, canFold: false, isFolded: false });
      continue;
    }
    const isFolded = folded.has(step.id);
    rows.push({ id: step.id, step, members: [step], level, canFold: step.children.length > 0, isFolded });
    if (isFolded) continue;
    const groups = groupsOf(step.children);
    const below: typeof waiting = [];
    for (const child of step.children) {
      const members = groups.get(child.id);
      if (members === undefined) below.push({ step: child, extra });
      else if (members[0] === child) below.push({ step: child, extra, group: members });
    }
    waiting.push(...below.reverse());
  }
  return rows;
}

/** Returns what has to be unfolded and taken apart to show a step. */
export function pathTo(step: Step): { unfold: string[]; open: string[] } {
  const unfold: string[] = [];
  for (let each = step.parent; each !== null; each = each.parent) unfold.push(each.id);
  const members = step.parent === null ? undefined : groupsOf(step.parent.children).get(step.id);
  return { unfold, open: members === undefined ? [] : [groupId(members)] };
}

/** When a step ended, or `now` for one that goes on. */
export function endOf(node: TraceNode, now: number): number {
  return Math.max(node.time_ns, ...(node.phases ?? []).map((each) => each.to_ns ?? now));
}

/** Returns the ids of the records that the end of the tree waited for: the one that ended last, and all its causes. The
 * time in which a person was waited for counts. */
export function criticalPath(nodes: TraceNode[], now: number): Set<string> {
  const path: TraceNode[] = [];
  let best: TraceNode[] = [];
  let last = -1;
  for (const node of nodes) {
    while (path.length > 0 && path.at(-1)!.depth >= node.depth) path.pop();
    path.push(node);
    const end = endOf(node, now);
    if (end > last) {
      last = end;
      best = [...path];
    }
  }
  return new Set(best.map(idOf));
}
