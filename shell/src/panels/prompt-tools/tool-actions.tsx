/** The buttons that begin a proposal. What a role or a lock forbids is disabled, and the reason stands beside it. The
 * server decides what it takes. */
import { useId } from "react";
import { navigate } from "../../router";
import type { PromptTool } from "../../sdk/prompt-tools";
import { maySend, useSession } from "../../session";
import { LOCKED, proposeHref } from "./tool-words";

export const MAY_NOT = "Your role may not propose; the roles user and agent may.";

interface ProposeButtonProps {
  act: Parameters<typeof proposeHref>[0];
  label: string;
  id?: string;
}

/** The reason is only a hint of the button: where there is room, `ToolActions` says it in the page. */
export function ProposeButton({ act, label, id }: ProposeButtonProps) {
  const mayPropose = maySend(useSession());
  return (
    <>
      <button type="button" disabled={!mayPropose} onClick={() => navigate(proposeHref(act, id))}>
        {label}
      </button>
      {!mayPropose && <span className="faint">{MAY_NOT}</span>}
    </>
  );
}

export function ToolActions({ tool }: { tool: PromptTool }) {
  const mayPropose = maySend(useSession());
  const reason = useId();
  const why = [!mayPropose && MAY_NOT, tool.locked && LOCKED].filter(Boolean).join(" ");
  const button = (act: "copy" | "change" | "delete", label: string, isLocked: boolean) => (
    <button
      type="button"
      className={act === "delete" ? "danger" : undefined}
      disabled={!mayPropose || isLocked}
      aria-describedby={why !== "" ? reason : undefined}
      onClick={() => navigate(proposeHref(act, tool.id))}
    >
      {label}
    </button>
  );
  return (
    <div className="column">
      <div className="buttons">
        {button("copy", "Propose a copy", false)}
        {button("change", "Propose a change", tool.locked)}
        {button("delete", "Propose to delete", tool.locked)}
      </div>
      {why !== "" && (
        <p className="faint" id={reason}>
          {why}
        </p>
      )}
    </div>
  );
}
