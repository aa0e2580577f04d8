/** The files of workspaces at each version, and what changed between two. */
import { useState } from "react";
import { useLive } from "../live/use-live";
import { moveFocus } from "../parts/list-keys";
import { useSubject } from "../parts/title";
import { Link, useSearch } from "../router";
import { type WorkspaceEntry, type WorkspaceVersion, workspaceDiff, workspacesGet, workspaceTree, workspaceVersions } from "../sdk";
import { CompareForm } from "./compare-form";
import { FileDiff, FileView } from "./file-views";
import { Moment, PanelState } from "./panel-state";
import "./panels.css";

/** So many versions, and so many changed files, are shown at first. */
const SOME = 50;

type To = (values: Record<string, string | number>) => string;

export default function WorkspacesPanel() {
  const search = useSearch();
  const name = search.get("name");
  useSubject(name ?? "");
  const live = useLive("workspaces", workspacesGet, (record) => record.unit.startsWith("sys/Workspace@1/"));
  return (
    <main className="page wide">
      <h1>Workspaces</h1>
      <PanelState live={live} loading="Loading the workspaces" empty="There is no workspace yet: tools make them when they write." isEmpty={(data) => data.workspaces.length === 0}>
        {(data) => {
          const chosen = data.workspaces.find((each) => each.workspace === name) ?? (data.workspaces.length === 1 ? data.workspaces[0] : undefined);
          return (
            <>
              <ul className="choices" onKeyDown={moveFocus}>
                {data.workspaces.map((each) => (
                  <li key={each.workspace}>
                    <Link data-item href={`/workspaces?name=${encodeURIComponent(each.workspace)}`} aria-current={each === chosen ? "page" : undefined}>
                      <bdi>{each.workspace}</bdi> @{each.version}
                    </Link>
                  </li>
                ))}
              </ul>
              {chosen === undefined ? (
                <p className="empty">Choose a workspace.</p>
              ) : (
                <OneWorkspace key={chosen.workspace} name={chosen.workspace} newest={chosen.version} search={search} />
              )}
            </>
          );
        }}
      </PanelState>
    </main>
  );
}

function OneWorkspace({ name, newest, search }: { name: string; newest: number; search: URLSearchParams }) {
  const version = Number(search.get("version") ?? newest) || newest;
  const path = search.get("path");
  const old = Number(search.get("old") ?? 0);
  const to: To = (values) =>
    `/workspaces?${new URLSearchParams({ name, ...Object.fromEntries(Object.entries(values).map(([key, value]) => [key, String(value)])) })}`;
  const versions = useLive(`${name} versions ${newest}`, () => workspaceVersions(name), () => false);
  return (
    <div className="workspace">
      <section aria-label="Versions">
        <h2>Versions</h2>
        <PanelState live={versions} loading="Loading the versions" empty="This workspace has no versions." isEmpty={(data) => data.versions.length === 0}>
          {(data) => (
            <>
              {data.versions.length > 1 && (
                <CompareForm
                  key={`${old} ${version}`}
                  old={old > 0 ? old : Math.max(1, version - 1)}
                  version={version}
                  newest={data.versions.at(-1)!.version}
                  labels={["From @", "to @"]}
                  to={to}
                />
              )}
              <VersionList versions={data.versions} version={version} to={to} />
            </>
          )}
        </PanelState>
      </section>
      <section aria-label="Files">
        {old > 0 ? (
          <Changes name={name} old={old} version={version} to={to} />
        ) : (
          <>
            <h2>Files @{version}</h2>
            <Folder name={name} version={version} path="" chosen={path} to={to} />
            {path !== null && <ChosenFile name={name} version={version} path={path} />}
          </>
        )}
      </section>
    </div>
  );
}

function VersionList({ versions, version, to }: { versions: WorkspaceVersion[]; version: number; to: To }) {
  const [count, setCount] = useState(SOME);
  const shown = versions.slice(-count).reverse();
  return (
    <>
      <ul className="versions" onKeyDown={moveFocus}>
        {shown.map((each) => (
          <li key={each.version}>
            <Link data-item href={to({ version: each.version })} aria-current={each.version === version ? "page" : undefined}>
              @{each.version}
            </Link>{" "}
            {each.version > 1 && <Link href={to({ version: each.version, old: each.version - 1 })}>what changed</Link>}
            <br />
            <span className="faint">
              <bdi>{each.owner}</bdi> <Moment ns={each.created_ns} />
            </span>
          </li>
        ))}
      </ul>
      {versions.length > count && (
        <button type="button" onClick={() => setCount(count + SOME)}>
          Older versions ({(versions.length - count).toLocaleString()})
        </button>
      )}
    </>
  );
}

interface FolderProps {
  name: string;
  version: number;
  path: string;
  chosen: string | null;
  to: To;
}

function Folder({ name, version, path, chosen, to }: FolderProps) {
  const live = useLive(`${name} ${version} ${path}`, () => workspaceTree(name, version, path), () => false);
  return (
    <PanelState live={live} loading="Loading the folder" empty="Nothing is in here." isEmpty={(data) => data.entries.length === 0}>
      {(data) => (
        <ul className="tree" onKeyDown={path === "" ? moveFocus : undefined}>
          {data.entries.map((entry) => (
            <Entry key={entry.path} entry={entry} name={name} version={version} chosen={chosen} to={to} />
          ))}
        </ul>
      )}
    </PanelState>
  );
}

function Entry({ entry, name, version, chosen, to }: Omit<FolderProps, "path"> & { entry: WorkspaceEntry }) {
  const [open, setOpen] = useState(chosen?.startsWith(`${entry.path}/`) ?? false);
  const label = entry.path.split("/").at(-1);
  return (
    <li>
      {entry.kind === "file" ? (
        <>
          <Link data-item href={to({ version, path: entry.path })} aria-current={entry.path === chosen ? "page" : undefined}>
            <bdi>{label}</bdi>
          </Link>{" "}
          <span className="faint">{entry.size.toLocaleString()} bytes</span>
        </>
      ) : (
        <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary data-item>
            <bdi>{label}/</bdi>
          </summary>
          {open && <Folder name={name} version={version} path={entry.path} chosen={chosen} to={to} />}
        </details>
      )}
    </li>
  );
}

function ChosenFile({ name, version, path }: { name: string; version: number; path: string }) {
  const live = useLive(`${name} ${version} entry ${path}`, () => workspaceTree(name, version, path), () => false);
  return (
    <PanelState live={live} loading="Loading the file" empty="There is no such file." isEmpty={(data) => data.entries[0]?.kind !== "file"}>
      {(data) => <FileView entry={data.entries[0]!} version={version} />}
    </PanelState>
  );
}

function Changes({ name, old, version, to }: { name: string; old: number; version: number; to: To }) {
  const [count, setCount] = useState(SOME);
  const live = useLive(`${name} ${old} ${version} changes`, () => workspaceDiff(name, old, version), () => false);
  return (
    <>
      <h2>
        Changed from @{old} to @{version}
      </h2>
      <p>
        <Link href={to({ version })}>All files @{version}</Link>
      </p>
      <PanelState live={live} loading="Loading the changes" empty="Nothing changed." isEmpty={(data) => data.changes.length === 0}>
        {(data) => (
          <>
            {data.changes.slice(0, count).map((each) => (
              <FileDiff key={each.path} change={each} />
            ))}
            {data.changes.length > count && (
              <button type="button" onClick={() => setCount(count + SOME)}>
                More files ({(data.changes.length - count).toLocaleString()})
              </button>
            )}
          </>
        )}
      </PanelState>
    </>
  );
}
