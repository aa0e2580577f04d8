/** One tool of an MCP server: its text as the server lists it now, what changed since it was trusted, and the decision. */
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { navigate, useSearch } from "../../router";
import { type DefinitionChange, type McpTool, mcpUntrust } from "../../sdk/mcp";
import { useSession } from "../../session";
import { JsonView } from "../json-view";
import { useSend } from "../../parts/use-send";
import { SideBySide } from "../side-by-side";
import { EFFECT_WORDS, RULE_WORDS, stateClass, TOOL_WORDS } from "./mcp-words";
import { TrustForm } from "./trust-form";

interface ToolCardProps {
  server: string;
  tool: McpTool;
  reload: () => void;
}

export function ToolCard({ server, tool, reload }: ToolCardProps) {
  const search = useSearch();
  const isOpen = search.get("tool") === tool.tool_id;
  const toggle = () => {
    const to = new URLSearchParams({ server, ...(isOpen ? {} : { tool: tool.tool_id }) });
    navigate(`/mcp-servers?${to}`, { replace: true });
  };
  return (
    <details className="card" open={isOpen} data-tool={tool.tool_id}>
      <summary
        data-item
        onClick={(event) => {
          event.preventDefault();
          toggle();
        }}
      >
        <span className="tool-line">
          <bdi className="wrap">
            <code>
              <Verbatim text={tool.name} />
            </code>
          </bdi>{" "}
          <span className={`state ${stateClass(tool.state)}`}>{TOOL_WORDS[tool.state]}</span> <span className="tag effect">{tool.counted_effect}</span>{" "}
          {tool.rule !== null && <span className="tag">{tool.rule}</span>}
        </span>
      </summary>
      {isOpen && <OpenTool server={server} tool={tool} reload={reload} />}
    </details>
  );
}

function OpenTool({ server, tool, reload }: ToolCardProps) {
  const isUser = useSession().roles.includes("user");
  const { sending, problem, send } = useSend(reload);
  const isWaiting = tool.state === "new" || tool.state === "quarantined";
  return (
    <div className="column open-tool">
      {tool.state === "quarantined" && (
        <p className="mark">
          <strong>Quarantined</strong>: the server changed this tool after it was trusted. No model sees it, and no call of it runs, before
          somebody trusts the new text.
        </p>
      )}
      {tool.problem !== null && <ErrorNote title="This tool can't be trusted as it is." message={tool.problem} />}
      <ToolFacts tool={tool} />
      {tool.changes.length > 0 && (
        <section className="changes" aria-label={`What changed in ${tool.name}`}>
          <h4>What changed since it was trusted</h4>
          {tool.changes.map((change) => (
            <ChangeView key={change.place} change={change} />
          ))}
        </section>
      )}
      <h4>What the server lists now</h4>
      <p className="faint">Untrusted text: somebody else wrote it.</p>
      <pre dir="auto" className="servers-text wrap" tabIndex={0} role="group" aria-label={`Description of ${tool.name}`}>
        <Verbatim text={tool.description === "" ? "(no description)" : tool.description} />
      </pre>
      {tool.definition !== null && (
        <details>
          <summary>The whole definition</summary>
          <JsonView value={tool.definition} label={`Definition of ${tool.name}`} />
        </details>
      )}
      {isUser && isWaiting && tool.problem === null && <TrustForm server={server} tools={[tool]} reload={reload} />}
      {isUser && !isWaiting && tool.state === "trusted" && (
        <details>
          <summary>Change how it is trusted</summary>
          <TrustForm server={server} tools={[tool]} reload={reload} />
        </details>
      )}
      {problem !== "" && <ErrorNote message={problem} />}
      {isUser && tool.pin !== null && (
        <p className="buttons">
          <button
            type="button"
            className="danger"
            disabled={sending !== undefined}
            onClick={() => send("untrust", () => mcpUntrust(server, [tool.tool_id]))}
          >
            {sending !== undefined ? "Sending …" : "Take the trust away"}
          </button>
        </p>
      )}
    </div>
  );
}

function ToolFacts({ tool }: { tool: McpTool }) {
  return (
    <dl className="facts">
      <dt>A model calls it</dt>
      <dd className="wrap">
        <code>{tool.tool_id}</code>
      </dd>
      <dt>Effect</dt>
      <dd>
        {EFFECT_WORDS[tool.counted_effect]} ({tool.counted_effect}). The server's hint:{" "}
        {tool.effect_by_server === null ? "none" : EFFECT_WORDS[tool.effect_by_server]}.{" "}
        {tool.effect !== null && `A person said: ${EFFECT_WORDS[tool.effect]}. The stricter counts.`}
      </dd>
      {tool.rule !== null && (
        <>
          <dt>Rule</dt>
          <dd>
            {tool.rule}: {RULE_WORDS[tool.rule]}
          </dd>
        </>
      )}
      {tool.trusted_at_ms !== null && (
        <>
          <dt>Trusted</dt>
          <dd>
            by <bdi>{tool.by}</bdi>, <Moment ns={tool.trusted_at_ms * 1e6} />
          </dd>
        </>
      )}
      {tool.pin !== null && (
        <>
          <dt>Pin</dt>
          <dd className="wrap">
            <code>{tool.pin}</code>
          </dd>
        </>
      )}
      {tool.found_pin !== null && tool.found_pin !== tool.pin && (
        <>
          <dt>Listed now</dt>
          <dd className="wrap">
            <code>{tool.found_pin}</code>
          </dd>
        </>
      )}
    </dl>
  );
}

/** A text that ends with a line end, so that a last line differs only if its letters do. */
const ended = (text: string | null) => (text === null ? "" : `${text}\n`);

function ChangeView({ change }: { change: DefinitionChange }) {
  return (
    <div className="change">
      <code className="wrap">
        <Verbatim text={change.place} />
      </code>
      <SideBySide before={ended(change.before)} after={ended(change.after)} labels={["Trusted", "Listed now"]} />
    </div>
  );
}
