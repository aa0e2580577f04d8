/** The MCP servers of the world: what each lists, what of it is trusted, and what waits for a person. */
import { useLive } from "../../live/use-live";
import { moveFocus } from "../../parts/list-keys";
import { Verbatim } from "../../parts/verbatim";
import { Link, navigate, useSearch } from "../../router";
import { mcpAdd, type McpServer, mcpServersGet } from "../../sdk/mcp";
import { useSession } from "../../session";
import { PanelState } from "../panel-state";
import "../panels.css";
import { useSend } from "../../parts/use-send";
import { AddServer } from "./add-server";
import "./mcp.css";
import { countsText, isOfServers, stateClass, stateText } from "./mcp-words";
import { ServerView } from "./server-view";

export default function McpPanel() {
  const chosen = useSearch().get("server");
  const live = useLive("mcp servers", mcpServersGet, isOfServers);
  const isUser = useSession().roles.includes("user");
  const sending = useSend(live.reload);
  const add = async (name: string, url: string) => {
    const isTaken = await sending.send("add", () => mcpAdd({ name, url }));
    if (isTaken) navigate(`/mcp-servers?server=${encodeURIComponent(name)}`);
    return isTaken;
  };
  return (
    <main className="page wide">
      <h1>MCP servers</h1>
      <p className="faint">
        A server lists tools. A model sees one only after a person trusted its exact text, and only while the server keeps that text.
      </p>
      <PanelState
        live={live}
        loading="Loading the MCP servers"
        empty="There is no MCP server. `demiurge mcp add NAME -- COMMAND` adds one on the machine that has the world open."
        isEmpty={(data) => data.servers.length === 0}
      >
        {(data) => {
          const shown = data.servers.find((each) => each.name === chosen) ?? (data.servers.length === 1 ? data.servers[0] : undefined);
          return (
            <div className={`servers ${shown !== undefined && shown.name === chosen ? "is-chosen" : ""}`}>
              <Link className="all-servers" href="/mcp-servers">
                All servers
              </Link>
              <ul className="server-list" aria-label="Servers" onKeyDown={moveFocus}>
                {data.servers.map((server) => (
                  <li key={server.name}>
                    <ServerRow server={server} isChosen={server === shown} />
                  </li>
                ))}
              </ul>
              {shown === undefined ? (
                <p className="empty">Choose a server.</p>
              ) : (
                <ServerView key={shown.name} name={shown.name} onChange={live.reload} />
              )}
            </div>
          );
        }}
      </PanelState>
      {isUser && <AddServer sending={sending} onAdd={add} />}
    </main>
  );
}

function ServerRow({ server, isChosen }: { server: McpServer; isChosen: boolean }) {
  return (
    <Link data-item className="card server-row" href={`/mcp-servers?server=${encodeURIComponent(server.name)}`} aria-current={isChosen ? "page" : undefined}>
      <span className="title-line">
        <strong>{server.name}</strong> <span className={`state ${stateClass(server.state)}`}>{stateText(server)}</span>
      </span>
      <span className="faint">{countsText(server)}</span>
      <code className="faint wrap">
        <Verbatim text={server.target} />
      </code>
    </Link>
  );
}
