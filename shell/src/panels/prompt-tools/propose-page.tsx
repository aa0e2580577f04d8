/** The page on which a person proposes a tool, a copy, a change or a deletion, or revises a proposal. */
import { useLive } from "../../live/use-live";
import { useSubject } from "../../parts/title";
import { Link } from "../../router";
import { ApiError } from "../../sdk";
import { type PromptTool, promptToolsGet } from "../../sdk/prompt-tools";
import { type ProposalBody, proposalGet } from "../../sdk/review";
import { maySend, useSession } from "../../session";
import { PanelState } from "../panel-state";
import { type Draft, draftOf, draftOfBody, emptyDraft, erasedDraft } from "./proposal-draft";
import { ProposeForm } from "./propose-form";
import { isOfProposals, proposalHref } from "./review-words";
import { MAY_NOT, ToolActions } from "./tool-actions";
import { copyId, ROOT, toolHref } from "./tool-words";

/** What the form begins with. */
export interface Start {
  title: string;
  draft: Draft;
  /** The digest of what is copied, changed or revised. */
  began: string;
  /** The proposal that is revised. */
  revises?: string;
  note?: string;
  back: { href: string; label: string };
}

/** `act` is `new`, `copy`, `change`, `delete` or `revise`; `id` names the tool, or the proposal that is revised. */
export default function ProposePage({ act, id }: { act: string; id: string }) {
  const mayPropose = maySend(useSession());
  useSubject("Propose");
  const live = useLive(`propose ${act} ${id}`, () => (act === "revise" ? revision(id) : proposal(act, id)), isOfProposals);
  if (!mayPropose) return <p className="empty">{MAY_NOT}</p>;
  return (
    <PanelState live={live} loading="Loading the form" empty="There is no such prompt tool." isEmpty={(data) => data === null}>
      {(data) =>
        data !== null && "locked" in data ? (
          <section className="card" aria-label="Locked">
            <h2>
              <Link href={toolHref(data.id)}>{data.id}</Link>: Locked (core)
            </h2>
            <ToolActions tool={data} />
          </section>
        ) : (
          data !== null && <ProposeForm key={`${act} ${id}`} start={data} />
        )
      }
    </PanelState>
  );
}

/** Returns what a form of this act begins with; the tool itself if it is a core tool that may not be changed, and null
 * if there is none. */
async function proposal(act: string, id: string) {
  const back = { href: ROOT, label: "All prompt tools" };
  if (act === "new") return { title: "Propose a new tool", draft: emptyDraft(), began: "", back } satisfies Start;
  const { tools } = await promptToolsGet();
  const tool = tools.find((each) => each.id === id);
  if (tool === undefined || (act !== "copy" && act !== "change" && act !== "delete")) return null;
  if (tool.locked && act !== "copy") return tool;
  const { source, note } = await sourceOf(tool);
  const draft = draftOf(tool, act, source);
  const start = { draft, began: tool.digest, note: act === "delete" ? undefined : note, back: { href: toolHref(tool.id), label: tool.id } };
  if (act === "change") return { ...start, title: `Propose a change of ${tool.id}` } satisfies Start;
  if (act === "delete") return { ...start, title: `Propose to delete ${tool.id}` } satisfies Start;
  const copy = { ...draft, id: copyId(tool.id, tools), name: `${tool.name} (copy)`.slice(0, 80) };
  return { ...start, title: `Propose a copy of ${tool.id}`, draft: copy } satisfies Start;
}

const UNREADABLE = "The examples and test cases of the live version cannot be read: write new ones.";

/** Returns the proposal by which a tool was approved, and a note if it cannot be read, such as after an erasure. */
async function sourceOf(tool: PromptTool): Promise<{ source: ProposalBody | null; note?: string }> {
  if (tool.proposal === null) return { source: null };
  try {
    const source = (await proposalGet(tool.proposal)).body;
    return source === null ? { source, note: `${UNREADABLE} Their text was erased.` } : { source };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 0) throw error;
    return { source: null, note: `${UNREADABLE} ${error.message}` };
  }
}

async function revision(id: string): Promise<Start | null> {
  const found = await proposalGet(id);
  const { body } = found;
  if (body === null && found.kind === "delete") return null;
  const draft = body === null ? erasedDraft(found) : draftOfBody(body);
  const isOutdated = found.base !== null && found.live_digest !== null && found.base !== found.live_digest;
  if (isOutdated) draft.baseHash = found.live_digest!;
  return {
    title: `Revise the proposal of ${found.tool}`,
    draft,
    began: found.digest,
    revises: id,
    note:
      body === null
        ? "The text of this proposal was erased: write it anew."
        : isOutdated
          ? "Another version of the tool is live now than the one that this proposal changed. The revision changes the live one: compare them before you send it."
          : undefined,
    back: { href: proposalHref(id), label: "The proposal" },
  };
}
