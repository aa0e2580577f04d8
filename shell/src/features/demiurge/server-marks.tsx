/** The marks of a tool of an MCP server: whose it is, and that its results are text of somebody else. */
import { Name } from "../../parts/name";
import { Link } from "../../router";

export function ServerMarks({ server, trust }: { server: string; trust: string | null }) {
  return (
    <p className="badges">
      <span className="tag">
        MCP server <Link href={`/mcp-servers?server=${encodeURIComponent(server)}`}>
          <Name inButton text={server} />
        </Link>
      </span>{" "}
      <span className="tag">{trust ?? "gone"}</span> <span className="tag effect">untrusted text</span>
    </p>
  );
}
