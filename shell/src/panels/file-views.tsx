/** A file of a workspace, and a file at two versions. Of a long one the beginning is shown, of bytes their size. */
import { useLive } from "../live/use-live";
import { Cut } from "../parts/marks";
import { blobHead, blobPath, type Head, type WorkspaceChange, type WorkspaceEntry } from "../sdk";
import { HeadView } from "./json-view";
import { PanelState } from "./panel-state";
import { SideBySide } from "./side-by-side";

const LONGEST = 200_000;

export function FileView({ entry, version }: { entry: WorkspaceEntry; version: number }) {
  const live = useLive(`file ${entry.hash}`, () => blobHead(entry.hash, LONGEST), () => false);
  return (
    <section className="card" aria-label={`File ${entry.path}`}>
      <h3>
        <bdi>{entry.path}</bdi> @{version}
      </h3>
      <p className="faint wrap">
        {entry.size.toLocaleString()} bytes, <code>{entry.hash}</code>{" "}
        <a href={blobPath(entry.hash)} download={entry.path.split("/").at(-1)}>
          Download
        </a>
      </p>
      <PanelState live={live} loading="Loading the file" empty="The file is empty." isEmpty={(head) => head.size === 0}>
        {(head) => <HeadView head={head} label={`Text of ${entry.path}`} />}
      </PanelState>
    </section>
  );
}

const NOTHING: Head = { text: "", shown: 0, size: 0, type: "text/plain" };

export function FileDiff({ change }: { change: WorkspaceChange }) {
  const { path, old_hash, new_hash } = change;
  const read = async (hash: string | null) => (hash === null ? NOTHING : blobHead(hash, LONGEST));
  const live = useLive(`diff ${old_hash} ${new_hash}`, async () => ({ before: await read(old_hash), after: await read(new_hash) }), () => false);
  return (
    <section className="card" aria-label={`Changes of ${path}`}>
      <h3>
        <bdi>{path}</bdi> {old_hash === null ? "(new)" : new_hash === null ? "(removed)" : ""}
      </h3>
      <PanelState live={live} loading="Loading both versions" empty="Both are empty." isEmpty={(data) => data.before.size + data.after.size === 0}>
        {({ before, after }) =>
          [before, after].some((each) => !each.type.startsWith("text/")) ? (
            <p className="faint">
              {before.size.toLocaleString()} and {after.size.toLocaleString()} bytes that are no text.
            </p>
          ) : (
            <>
              <SideBySide before={before.text} after={after.text} />
              {[before, after].map(
                (each, place) =>
                  each.size > LONGEST && (
                    <div key={place}>
                      {place === 0 ? "Before" : "After"}: <Cut shown={LONGEST} whole={each.size} of="bytes" />
                    </div>
                  ),
              )}
            </>
          )
        }
      </PanelState>
    </section>
  );
}
