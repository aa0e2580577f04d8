/** The files of workspaces at each version, and what changed between two. */
import { diffLines } from "diff";
import { useLive } from "../live/use-live";
import { Verbatim } from "../parts/verbatim";
import { Link, useSearch } from "../router";
import { workspaceDiff, workspaceFile, workspacesGet, workspaceTree, workspaceVersions } from "../sdk";
import { Moment, PanelState } from "./panel-state";
import "./panels.css";

const LONGEST = 200_000;

export default function WorkspacesPanel() {
  const search = useSearch();
  const name = search.get("name");
  const live = useLive("workspaces", workspacesGet, (record) => record.unit.startsWith("sys/Workspace@1/"));
  return (
    <main className="page wide">
      <h1>Workspaces</h1>
      <PanelState live={live} loading="Loading the workspaces" empty="There is no workspace yet: tools make them when they write." isEmpty={(data) => data.workspaces.length === 0}>
        {(data) => (
          <>
            <ul className="choices">
              {data.workspaces.map((each) => (
                <li key={each.workspace}>
                  <Link href={`/workspaces?name=${encodeURIComponent(each.workspace)}`} aria-current={each.workspace === name ? "page" : undefined}>
                    <bdi>{each.workspace}</bdi> @{each.version}
                  </Link>
                </li>
              ))}
            </ul>
            {data.workspaces
              .filter((each) => each.workspace === name)
              .map((each) => (
                <OneWorkspace key={each.workspace} name={each.workspace} newest={each.version} search={search} />
              ))}
          </>
        )}
      </PanelState>
    </main>
  );
}

function OneWorkspace({ name, newest, search }: { name: string; newest: number; search: URLSearchParams }) {
  const version = Number(search.get("version") ?? newest) || newest;
  const path = search.get("path");
  const old = Number(search.get("old") ?? 0);
  const to = (values: Record<string, string | number>) =>
    `/workspaces?${new URLSearchParams({ name, ...Object.fromEntries(Object.entries(values).map(([key, value]) => [key, String(value)])) })}`;
  const live = useLive(
    `${name} ${version} ${newest} ${old}`,
    async () => ({
      ...(await workspaceVersions(name)),
      ...(await workspaceTree(name, version)),
      changes: old > 0 ? (await workspaceDiff(name, old, version)).changes : null,
    }),
    () => false,
  );
  return (
    <PanelState live={live} loading="Loading the files" empty="This workspace has no versions." isEmpty={(data) => data.versions.length === 0}>
      {(data) => (
        <div className="workspace">
          <section aria-label="Versions">
            <h2>Versions</h2>
            <ul>
              {[...data.versions].reverse().map((each) => (
                <li key={each.version}>
                  <Link href={to({ version: each.version })} aria-current={each.version === version ? "page" : undefined}>
                    @{each.version}
                  </Link>{" "}
                  <bdi className="faint">{each.owner}</bdi> <Moment ns={each.created_ns} />{" "}
                  {each.version > 1 && <Link href={to({ version: each.version, old: each.version - 1 })}>what changed</Link>}
                </li>
              ))}
            </ul>
          </section>
          <section aria-label="Files">
            <h2>{data.changes === null ? `Files @${version}` : `Changed from @${old} to @${version}`}</h2>
            {data.changes === null ? (
              <Folder name={name} version={version} entries={data.entries} to={to} />
            ) : data.changes.length === 0 ? (
              <p className="empty">Nothing changed.</p>
            ) : (
              data.changes.map((each) => <FileDiff key={each.path} name={name} old={each.old_hash === null ? 0 : old} version={each.new_hash === null ? 0 : version} path={each.path} />)
            )}
            {path !== null && <FileView name={name} version={version} path={path} />}
          </section>
        </div>
      )}
    </PanelState>
  );
}

interface FolderProps {
  name: string;
  version: number;
  entries: { path: string; kind: "file" | "dir"; size: number }[];
  to: (values: Record<string, string | number>) => string;
}

function Folder({ name, version, entries, to }: FolderProps) {
  if (entries.length === 0) return <p className="empty">Nothing is in here.</p>;
  return (
    <ul className="tree">
      {entries.map((each) => (
        <li key={each.path}>
          {each.kind === "file" ? (
            <>
              <Link href={to({ version, path: each.path })}>
                <bdi>{each.path}</bdi>
              </Link>{" "}
              <span className="faint">{each.size.toLocaleString()} bytes</span>
            </>
          ) : (
            <details>
              <summary>
                <bdi>{each.path}/</bdi>
              </summary>
              <SubFolder name={name} version={version} path={each.path} to={to} />
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}

function SubFolder({ name, version, path, to }: { name: string; version: number; path: string; to: FolderProps["to"] }) {
  const live = useLive(`${name} ${version} ${path}`, () => workspaceTree(name, version, path), () => false);
  return (
    <PanelState live={live} loading="Loading the folder" empty="Nothing is in here." isEmpty={(data) => data.entries.length === 0}>
      {(data) => <Folder name={name} version={version} entries={data.entries} to={to} />}
    </PanelState>
  );
}

function FileView({ name, version, path }: { name: string; version: number; path: string }) {
  const live = useLive(`${name} ${version} ${path}`, () => workspaceFile(name, path, version), () => false);
  return (
    <PanelState live={live} loading="Loading the file" empty="The file is empty." isEmpty={(text) => text === ""}>
      {(text) => (
        <div className="json" tabIndex={0} role="group" aria-label={`File ${path}`}>
          <pre dir="auto">
            <Verbatim text={text.slice(0, LONGEST)} />
          </pre>
          {text.length > LONGEST && <p className="faint">Cut: the first {LONGEST.toLocaleString()} of {text.length.toLocaleString()} characters.</p>}
        </div>
      )}
    </PanelState>
  );
}

/** A file at two versions, side by side. A version 0 has no such file. */
function FileDiff({ name, old, version, path }: { name: string; old: number; version: number; path: string }) {
  const read = (at: number) => (at === 0 ? "" : workspaceFile(name, path, at));
  const live = useLive(`${name} ${old} ${version} ${path}`, async () => ({ before: await read(old), after: await read(version) }), () => false);
  return (
    <section className="card" aria-label={`Changes of ${path}`}>
      <h3>
        <bdi>{path}</bdi> {old === 0 ? "(new)" : version === 0 ? "(removed)" : ""}
      </h3>
      <PanelState live={live} loading="Loading both versions" empty="Both are empty." isEmpty={(data) => data.before === data.after}>
        {({ before, after }) => <SideBySide before={before.slice(0, LONGEST)} after={after.slice(0, LONGEST)} />}
      </PanelState>
    </section>
  );
}

function lines(text: string): string[] {
  return text.replace(/\n$/, "").split("\n");
}

function SideBySide({ before, after }: { before: string; after: string }) {
  const rows: [string | null, string | null, boolean][] = [];
  const parts = diffLines(before, after);
  for (let place = 0; place < parts.length; place++) {
    const part = parts[place]!;
    const next = parts[place + 1];
    if (!part.added && !part.removed) rows.push(...lines(part.value).map((line): [string, string, boolean] => [line, line, false]));
    else {
      const gone = part.removed ? lines(part.value) : [];
      const come = part.added ? lines(part.value) : part.removed && next?.added ? lines(next.value) : [];
      if (part.removed && next?.added) place++;
      for (let row = 0; row < Math.max(gone.length, come.length); row++) rows.push([gone[row] ?? null, come[row] ?? null, true]);
    }
  }
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="Both versions">
      <table className="side-by-side">
        <thead>
          <tr>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([left, right, changed], place) => (
            <tr key={place}>
              <td className={changed && left !== null ? "removed" : ""}>{left !== null && <pre><span className="unseen">{changed ? "removed: " : ""}</span><Verbatim text={left} /></pre>}</td>
              <td className={changed && right !== null ? "added" : ""}>{right !== null && <pre><span className="unseen">{changed ? "added: " : ""}</span><Verbatim text={right} /></pre>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
