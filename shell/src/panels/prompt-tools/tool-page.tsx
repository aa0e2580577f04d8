/** One prompt tool: its whole text, who approved it, and its approved versions. */
import { useLive } from "../../live/use-live";
import { Moment } from "../../parts/time";
import { useSubject } from "../../parts/title";
import { Verbatim } from "../../parts/verbatim";
import { Link } from "../../router";
import { ApiError } from "../../sdk";
import { type PromptTool, promptToolGet, type PromptToolVersion, toolHistory } from "../../sdk/prompt-tools";
import { useSession } from "../../session";
import { PanelState } from "../panel-state";
import { Badges } from "./catalog";
import { isOfRegistry, mayRead, proposalHref } from "./review-words";
import { ToolActions } from "./tool-actions";
import { ToolHistory } from "./tool-history";
import { ToolText } from "./tool-text";
import { LAYERS, ROOT } from "./tool-words";

interface Found {
  /** Null of a tool that was deleted, or whose text was erased. */
  tool: PromptTool | null;
  /** Null for a caller who may not read them, and of a core tool, which has none. */
  versions: PromptToolVersion[] | null;
}

/** Returns null in place of an answer with one of these codes. */
const unless = <T,>(found: Promise<T>, ...codes: string[]): Promise<T | null> =>
  found.catch((error) => {
    if (error instanceof ApiError && codes.includes(error.code)) return null;
    throw error;
  });

async function load(id: string): Promise<Found> {
  const tool = await unless(promptToolGet(id), "no_tool");
  const history = tool?.locked ? null : await unless(toolHistory(id), "role_missing");
  if (tool === null && (history?.versions ?? []).length === 0) await promptToolGet(id);
  return { tool, versions: history?.versions ?? null };
}

export function ToolPage({ id }: { id: string }) {
  useSubject(id);
  const live = useLive(`prompt tool ${id}`, () => load(id), isOfRegistry);
  return (
    <div className="tool-page">
      <p>
        <Link href={ROOT}>All prompt tools</Link>
      </p>
      <PanelState live={live} loading="Loading the prompt tool" empty="There is no such prompt tool." isEmpty={() => false}>
        {({ tool, versions }) => (
          <>
            {tool !== null ? (
              <LiveTool tool={tool} />
            ) : (
              <p className="mark">
                <strong>{versions?.some((each) => each.is_live) ? "Erased" : "Deleted"}</strong>: <code>{id}</code> is not in the catalog. Its versions are
                below.
              </p>
            )}
            {tool?.locked ? null : versions === null ? (
              <p className="faint">Your role does not see the approved versions.</p>
            ) : (
              <ToolHistory id={tool?.id ?? id} versions={versions} />
            )}
          </>
        )}
      </PanelState>
    </div>
  );
}

function LiveTool({ tool }: { tool: PromptTool }) {
  const mayReadProposal = mayRead(useSession());
  return (
    <section className="card" aria-labelledby="prompt-tool">
      <div className="title-line">
        <h2 id="prompt-tool">
          <bdi>
            <Verbatim text={tool.name} />
          </bdi>
        </h2>
        <code className="wrap">{tool.id}</code>
        <Badges tool={tool} />
      </div>
      <ToolActions tool={tool} />
      <dl className="facts">
        <dt>Layer</dt>
        <dd>{tool.locked ? "global: shipped with this program" : LAYERS[tool.layer]}</dd>
        {tool.archetype !== "" && (
          <>
            <dt>Archetype</dt>
            <dd>{tool.archetype}</dd>
          </>
        )}
        {tool.scope !== "" && (
          <>
            <dt>Scope</dt>
            <dd>{tool.scope}</dd>
          </>
        )}
        {tool.approved_by !== null && (
          <>
            <dt>Approved</dt>
            <dd>
              by <bdi>{tool.approved_by}</bdi>
              {tool.approved_at_ms !== null && (
                <>
                  , <Moment ns={tool.approved_at_ms * 1e6} />
                </>
              )}
              {tool.proposal !== null && mayReadProposal && (
                <>
                  : <Link href={proposalHref(tool.proposal)}>its proposal</Link>
                </>
              )}
            </dd>
          </>
        )}
        <dt>Digest</dt>
        <dd className="wrap">
          <code>{tool.digest}</code>
        </dd>
      </dl>
      <ToolText
        record={{
          usageNotes: tool.usageNotes,
          goals: tool.goals,
          guardrails: tool.guardrails,
          prompt: tool.prompt,
        }}
      />
    </section>
  );
}
