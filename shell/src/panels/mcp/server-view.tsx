/** One MCP server: what it is, its tools, and what a user may do with it. */
import { useState } from "react";
import { useLive } from "../../live/use-live";
import { moveFocus } from "../../parts/list-keys";
import { ErrorNote } from "../../parts/notes";
import { Moment } from "../../parts/time";
import { Verbatim } from "../../parts/verbatim";
import { navigate } from "../../router";
import { mcpRefresh, mcpRemove, type McpServer, mcpServerGet } from "../../sdk/mcp";
import { useSession } from "../../session";
import { PanelState } from "../panel-state";
import { useSubject } from "../../parts/title";
import { useSend } from "../../parts/use-send";
import { isOfServers, stateClass, stateText } from "./mcp-words";
import { ToolCard } from "./tool-card";
import { TrustForm } from "./trust-form";

export function ServerView({ name, onChange }: { name: string; onChange: () => void }) {
  useSubject(name);
  const live = useLive(`mcp server ${name}`, () => mcpServerGet(name), (record) => isOfServers(record) && record.unit.endsWith(`/${name}`));
  return (
    <section className="server" aria-label={`Server ${name}`}>
      <PanelState live={live} loading="Loading the server" empty="" isEmpty={() => false}>
        {(server) => <Server server={server} reload={live.reload} onChange={onChange} />}
      </PanelState>
    </section>
  );
}

function Server({ server, reload, onChange }: { server: McpServer; reload: () => void; onChange: () => void }) {
  const isUser = useSession().roles.includes("user");
  const waiting = server.tools.filter((tool) => tool.state === "new" && tool.problem === null);
  return (
    <>
      <div className="title-line">
        <h2>{server.name}</h2>
        <span role="status" className={`state ${stateClass(server.state)}`}>
          {stateText(server)}
        </span>
      </div>
      {server.problem !== null && (
        <ErrorNote title="This server did not list its tools." message={server.problem} />
      )}
      {server.last_words.length > 0 && (
        <>
          <h3>What it wrote last to its standard error</h3>
          <pre className="head" dir="auto" tabIndex={0} role="group" aria-label={`What ${server.name} wrote last`}>
            <Verbatim text={server.last_words.join("\n")} />
          </pre>
        </>
      )}
      {server.state === "not_adopted" && (
        <p className="mark">
          It was added elsewhere, so nothing of it runs here. <code>demiurge mcp show {server.name}</code> says what it starts, and{" "}
          <code>demiurge mcp adopt {server.name}</code> lets it run, on the machine that has the world open.
        </p>
      )}
      <Facts server={server} />
      {isUser && <Actions server={server} reload={reload} onChange={onChange} />}
      {isUser && waiting.length > 1 && (
        <details className="card">
          <summary>Trust all {waiting.length} tools that are not trusted yet</summary>
          <p className="faint">Read their texts below first: a model will see them.</p>
          <TrustForm server={server.name} tools={waiting} reload={reload} />
        </details>
      )}
      <h3>Tools</h3>
      {server.tools.length === 0 ? (
        <p className="empty">{server.listed_at_ms === null ? "It never listed its tools." : "It lists no tools."}</p>
      ) : (
        <div className="column" onKeyDown={moveFocus}>
          {server.tools.map((tool) => (
            <ToolCard key={tool.tool_id} server={server.name} tool={tool} reload={reload} />
          ))}
        </div>
      )}
    </>
  );
}

function Facts({ server }: { server: McpServer }) {
  const said = [server.server_name, server.server_version].filter((each) => each !== "").join(" ");
  return (
    <dl className="facts">
      <dt>{server.transport === "stdio" ? "Command" : "Address"}</dt>
      <dd className="wrap">
        <code>
          <Verbatim text={server.target} />
        </code>
      </dd>
      <dt>Protocol</dt>
      <dd className="wrap">
        <Verbatim text={server.protocol === "" ? "not known yet" : server.protocol} />
      </dd>
      {said !== "" && (
        <>
          <dt>Calls itself</dt>
          <dd className="wrap" dir="auto">
            <Verbatim text={said} />
          </dd>
        </>
      )}
      {server.listed_at_ms !== null && (
        <>
          <dt>Listed</dt>
          <dd>
            <Moment ns={server.listed_at_ms * 1e6} />
          </dd>
        </>
      )}
      <dt>Added</dt>
      <dd>
        by <bdi>{server.added_by}</bdi>, <Moment ns={server.added_at_ms * 1e6} />
      </dd>
      {server.problems.length > 0 && (
        <>
          <dt>In its list</dt>
          <dd className="wrap bad">
            {server.problems.map((each) => (
              <p key={each} dir="auto">
                <Verbatim text={each} />
              </p>
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}

interface ActionsProps {
  server: McpServer;
  reload: () => void;
  onChange: () => void;
}

function Actions({ server, reload, onChange }: ActionsProps) {
  const { sending, problem, send } = useSend(() => {
    reload();
    onChange();
  });
  const [isSure, setSure] = useState(false);
  const remove = async () => {
    if (!(await send("remove", () => mcpRemove(server.name)))) return;
    navigate("/mcp-servers", { replace: true });
  };
  return (
    <>
      {problem !== "" && problem !== server.problem && <ErrorNote message={problem} />}
      <p className="buttons">
        <button type="button" disabled={sending !== undefined || !server.is_local} onClick={() => send("refresh", () => mcpRefresh(server.name))}>
          {sending === "refresh" ? "Asking …" : "Ask it for its tools now"}
        </button>
        {isSure ? (
          <>
            <button type="button" className="danger" disabled={sending !== undefined} onClick={remove}>
              {sending === "remove" ? "Sending …" : `Remove ${server.name} and the trust in its tools`}
            </button>
            <button type="button" className="quiet" onClick={() => setSure(false)}>
              Keep it
            </button>
          </>
        ) : (
          <button type="button" className="quiet" onClick={() => setSure(true)}>
            Remove …
          </button>
        )}
      </p>
    </>
  );
}
